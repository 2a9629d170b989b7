#include <troupe/learner/export/examples.hpp>

#include <fmt/format.h>

#include <algorithm>

#include <troupe/core/rng.hpp>
#include <troupe/learner/graph/graph_data.hpp>
#include <troupe/messages/safetensors.hpp>

namespace troupe::learner {
namespace {

using Given = std::map<std::string, std::vector<std::int32_t>>;

std::int64_t rows_to_choose(const GraphData& data, std::uint32_t input) {
  std::int64_t rows = 0;
  for (const Node& node : data.nodes) {
    if (node.op == nullptr || node.op->name != "embedding" || node.inputs[1] != input) continue;
    const std::int64_t own = data.values[node.inputs[0]].spec.shape[0];
    rows = rows == 0 ? own : std::min(rows, own);
  }
  return std::max<std::int64_t>(rows, 1);
}

Status check_given(const Graph& graph, const Given& given) {
  const std::int64_t batch = graph.batch();
  for (const auto& [name, values] : given) {
    const std::int64_t rows = choices(graph, name);
    if (rows == 0) return Error{Code::kNotFound, fmt::format("the network has no input of integers \"{}\"", name)};
    if (static_cast<std::int64_t>(values.size()) != batch) {
      return Error{Code::kShapeMismatch, fmt::format("{} has {} values, expected {}", name, values.size(), batch)};
    }
    for (const std::int32_t value : values) {
      if (value >= 0 && value < rows) continue;
      return Error{Code::kOutOfRange, fmt::format("{} is {}, expected 0 to {}", name, value, rows - 1)};
    }
  }
  return {};
}

}  // namespace

std::int64_t choices(const Graph& graph, std::string_view input) {
  const GraphData& data = GraphAccess::data(graph);
  const auto found = std::ranges::find(data.inputs, input, &InputDef::name);
  if (found == data.inputs.end() || data.values[found->value].spec.dtype != DType::kI32) return 0;
  return rows_to_choose(data, found->value);
}

Result<Example> run_example(const Graph& graph, Program& program, std::uint64_t seed, const Given& given) {
  const GraphData& data = GraphAccess::data(graph);
  TROUPE_TRY(check_given(graph, given));
  Rng rng(seed);
  Example example;
  for (const InputDef& input : data.inputs) {
    const ValueSpec& spec = data.values[input.value].spec;
    const auto size = static_cast<std::size_t>(spec.shape.elements());
    ExampleTensor& tensor = example.inputs.emplace_back();
    tensor = {.name = input.name, .shape = spec.shape, .dtype = spec.dtype};
    if (const auto own = given.find(input.name); own != given.end()) {
      tensor.integers = own->second;
    } else if (spec.dtype == DType::kI32) {
      const auto rows = static_cast<std::uint64_t>(rows_to_choose(data, input.value));
      tensor.integers.resize(size);
      for (std::int32_t& value : tensor.integers) value = static_cast<std::int32_t>(rng.below(rows));
    } else if (spec.dtype == DType::kU8) {
      tensor.bytes.resize(size);
      for (std::uint8_t& value : tensor.bytes) value = static_cast<std::uint8_t>(rng.below(256));
    } else {
      tensor.reals.resize(size);
      for (float& value : tensor.reals) value = static_cast<float>(rng.normal());
    }
  }
  for (const ExampleTensor& tensor : example.inputs) {  // which stay where they are from now on
    TROUPE_TRY(tensor.dtype == DType::kI32  ? program.bind(tensor.name, std::span(tensor.integers))
               : tensor.dtype == DType::kU8 ? program.bind(tensor.name, std::span(tensor.bytes))
                                            : program.bind(tensor.name, std::span(tensor.reals)));
  }
  TROUPE_TRY(program.run());
  for (const NamedValue& output : data.outputs) {
    const std::span<const float> values = program.output(output.name);
    example.outputs.push_back(
        {.name = output.name, .shape = data.values[output.value].spec.shape, .reals = {values.begin(), values.end()}});
  }
  return example;
}

Result<std::vector<std::byte>> encode_example(const Example& example) {
  std::vector<messages::TensorBytes> tensors;
  const auto add = [&tensors](const std::string& prefix, const std::vector<ExampleTensor>& all) {
    for (const ExampleTensor& tensor : all) {
      const auto values = tensor.dtype == DType::kI32  ? std::as_bytes(std::span(tensor.integers))
                          : tensor.dtype == DType::kU8 ? std::as_bytes(std::span(tensor.bytes))
                                                       : std::as_bytes(std::span(tensor.reals));
      tensors.push_back({prefix + tensor.name, tensor.dtype, tensor.shape, values});
    }
  };
  add("input/", example.inputs);
  add("output/", example.outputs);
  return messages::encode_safetensors(tensors, {});
}

}  // namespace troupe::learner
