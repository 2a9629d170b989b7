#include <troupe/learner/export/onnx_builder.hpp>

#include <fmt/format.h>

#include <algorithm>

#include <troupe/core/check.hpp>
#include <troupe/core/proto_writer.hpp>

namespace troupe::learner {
namespace {

// Field numbers and values of onnx.proto (github.com/onnx/onnx), by message.
namespace model {
constexpr int kIrVersion = 1, kProducerName = 2, kProducerVersion = 3, kGraph = 7, kOpsetImport = 8, kMetadata = 14;
}
namespace opset {
constexpr int kVersion = 2;  // without a domain: ai.onnx
}
namespace entry {
constexpr int kKey = 1, kValue = 2;
}
namespace graph {
constexpr int kNode = 1, kName = 2, kInitializer = 5, kInput = 11, kOutput = 12;
}
namespace node_proto {
constexpr int kInput = 1, kOutput = 2, kName = 3, kOpType = 4, kAttribute = 5;
}
namespace attribute {
constexpr int kName = 1, kFloat = 2, kInt = 3, kString = 4, kInts = 8, kType = 20;
constexpr int kTypeFloat = 1, kTypeInt = 2, kTypeString = 3, kTypeInts = 7;
}  // namespace attribute
namespace tensor {
constexpr int kDims = 1, kDataType = 2, kName = 8, kRawData = 9;
}
namespace value_info {
constexpr int kName = 1, kType = 2;
}
namespace type {
constexpr int kTensor = 1, kElement = 1, kShape = 2, kDimension = 1, kDimensionValue = 1, kDimensionName = 2;
}

int data_type(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return 1;
    case DType::kU8:
      return 2;
    case DType::kI32:
      return 6;
    case DType::kI64:
      return 7;
    default:
      break;
  }
  TROUPE_CHECK(false, "onnx: no network has values of {}", to_string(dtype));
  return 0;
}

std::string tensor_bytes(std::string_view name, DType dtype, std::span<const std::int64_t> dims,
                         std::span<const std::byte> raw) {
  ProtoWriter writer;
  for (const std::int64_t dim : dims) writer.add_int(tensor::kDims, dim);
  writer.add_int(tensor::kDataType, data_type(dtype));
  writer.add_string(tensor::kName, name);
  writer.add_bytes(tensor::kRawData, raw);  // little-endian, as this machine is
  return writer.bytes();
}

ProtoWriter attribute_message(const OnnxAttribute& from) {
  ProtoWriter writer;
  writer.add_string(attribute::kName, from.name);
  if (const auto* whole = std::get_if<std::int64_t>(&from.value)) {
    writer.add_int(attribute::kInt, *whole);
    writer.add_int(attribute::kType, attribute::kTypeInt);
  } else if (const auto* real = std::get_if<float>(&from.value)) {
    writer.add_float(attribute::kFloat, *real);
    writer.add_int(attribute::kType, attribute::kTypeFloat);
  } else if (const auto* list = std::get_if<std::vector<std::int64_t>>(&from.value)) {
    for (const std::int64_t each : *list) writer.add_int(attribute::kInts, each);
    writer.add_int(attribute::kType, attribute::kTypeInts);
  } else {
    writer.add_string(attribute::kString, std::get<std::string>(from.value));
    writer.add_int(attribute::kType, attribute::kTypeString);
  }
  return writer;
}

}  // namespace

std::string OnnxBuilder::unused(std::string_view name) {
  std::string candidate(name);
  for (int i = 2; !names_.insert(candidate).second; ++i) candidate = fmt::format("{}.{}", name, i);
  return candidate;
}

std::string OnnxBuilder::node(std::string_view op, std::vector<std::string> inputs,
                              std::vector<OnnxAttribute> attributes) {
  std::string output = unused(fmt::format("{}_{}", op, nodes_.size()));
  nodes_.push_back({std::string(op), std::move(inputs), output, std::move(attributes)});
  return output;
}

std::string OnnxBuilder::floats(std::string_view name, const Shape& shape, std::span<const float> values) {
  std::string own = unused(name);
  tensors_.push_back(tensor_bytes(own, DType::kF32, shape.dims(), std::as_bytes(values)));
  return own;
}

std::string OnnxBuilder::ints(const std::vector<std::int64_t>& values) {
  std::string& name = ints_[values];
  if (name.empty()) {
    name = unused(fmt::format("int64_{}", fmt::join(values, "_")));
    const auto count = static_cast<std::int64_t>(values.size());
    tensors_.push_back(tensor_bytes(name, DType::kI64, {&count, 1}, std::as_bytes(std::span(values))));
  }
  return name;
}

std::string OnnxBuilder::batch_size() {
  const auto batched = std::ranges::find_if(
      inputs_, [](const Port& input) { return !input.dims.empty() && input.dims.front() == kOnnxAnySize; });
  TROUPE_CHECK(batched != inputs_.end(), "onnx: no input has rows");
  return node("Shape", {batched->name}, {{"start", std::int64_t{0}}, {"end", std::int64_t{1}}});
}

std::string OnnxBuilder::scalar(double value) {
  const auto single = static_cast<float>(value);
  return floats(fmt::format("float_{}", single), Shape{}, {&single, 1});
}

void OnnxBuilder::input(std::string_view name, DType dtype, std::vector<std::int64_t> dims) {
  names_.emplace(name);
  inputs_.push_back({std::string(name), dtype, std::move(dims)});
}

void OnnxBuilder::output(std::string_view name, const std::string& value, std::vector<std::int64_t> dims) {
  const auto made = std::ranges::find(nodes_, value, &Node::output);
  const bool taken = std::ranges::find(outputs_, value, &Port::name) != outputs_.end();
  const std::string own = unused(name);
  if (made == nodes_.end() || taken) {
    nodes_.push_back({"Identity", {value}, own, {}});
  } else {
    for (Node& each : nodes_) std::ranges::replace(each.inputs, std::string(value), own);
    made->output = own;
  }
  outputs_.push_back({own, DType::kF32, std::move(dims)});
}

std::string OnnxBuilder::finish(const OnnxModelInfo& info) const {
  ProtoWriter whole;
  for (const Node& each : nodes_) {
    ProtoWriter writer;
    for (const std::string& in : each.inputs) writer.add_string(node_proto::kInput, in);
    writer.add_string(node_proto::kOutput, each.output);
    writer.add_string(node_proto::kName, each.output);
    writer.add_string(node_proto::kOpType, each.op);
    for (const OnnxAttribute& from : each.attributes) {
      writer.add_message(node_proto::kAttribute, attribute_message(from));
    }
    whole.add_message(graph::kNode, writer);
  }
  whole.add_string(graph::kName, info.name);
  for (const std::string& each : tensors_) whole.add_string(graph::kInitializer, each);
  const auto add_ports = [&whole](int field, const std::vector<Port>& ports) {
    for (const Port& port : ports) {
      ProtoWriter shape;
      for (const std::int64_t dim : port.dims) {
        ProtoWriter dimension;
        if (dim == kOnnxAnySize) {
          dimension.add_string(type::kDimensionName, "batch");
        } else {
          dimension.add_int(type::kDimensionValue, dim);
        }
        shape.add_message(type::kDimension, dimension);
      }
      ProtoWriter tensor_type, value_type, writer;
      tensor_type.add_int(type::kElement, data_type(port.dtype));
      tensor_type.add_message(type::kShape, shape);
      value_type.add_message(type::kTensor, tensor_type);
      writer.add_string(value_info::kName, port.name);
      writer.add_message(value_info::kType, value_type);
      whole.add_message(field, writer);
    }
  };
  add_ports(graph::kInput, inputs_);
  add_ports(graph::kOutput, outputs_);

  ProtoWriter file, operators;
  operators.add_int(opset::kVersion, kOnnxOpset);
  file.add_int(model::kIrVersion, kOnnxIrVersion);
  file.add_string(model::kProducerName, "troupe");
  file.add_string(model::kProducerVersion, info.producer_version);
  file.add_message(model::kGraph, whole);
  file.add_message(model::kOpsetImport, operators);
  for (const auto& [key, value] : info.metadata) {
    ProtoWriter pair;
    pair.add_string(entry::kKey, key);
    pair.add_string(entry::kValue, value);
    file.add_message(model::kMetadata, pair);
  }
  return file.bytes();
}

}  // namespace troupe::learner
