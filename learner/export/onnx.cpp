#include <troupe/learner/export/onnx.hpp>

#include <fmt/format.h>

#include <cstdint>
#include <vector>

#include <troupe/learner/export/onnx_ops.hpp>
#include <troupe/learner/graph/graph_data.hpp>

namespace troupe::learner {
namespace {

constexpr std::size_t kMaxBytes = (std::size_t{1} << 31) - 1;

class Emitter {
 public:
  Emitter(const Graph& graph, Program& program)
      : data_(GraphAccess::data(graph)), program_(program), names_(data_.values.size()) {}

  Status emit() {
    if (data_.outputs.empty()) return Error{Code::kInvalidArgument, "onnx: the graph has no output"};
    for (const InputDef& input : data_.inputs) {
      const ValueSpec& spec = data_.values[input.value].spec;
      names_[input.value] = input.name;
      to_.input(input.name, spec.dtype, dims(spec));
    }
    const std::vector<bool> needed = needed_nodes();
    for (std::size_t i = 0; i < data_.nodes.size(); ++i) {
      if (needed[i]) TROUPE_TRY(emit_node(data_.nodes[i]));
    }
    for (const NamedValue& output : data_.outputs) {
      const ValueSpec& spec = data_.values[output.value].spec;
      if (spec.place == Place::kPartial || spec.dtype != DType::kF32) {
        return Error{Code::kInvalidArgument,
                     fmt::format("onnx: output \"{}\" is {}, expected a float32 value", output.name,
                                 spec.place == Place::kPartial ? "a sum over stripes" : to_string(spec.dtype))};
      }
      to_.output(output.name, name_of(output.value), dims(spec));
    }
    return {};
  }

  const OnnxBuilder& builder() const { return to_; }

 private:
  /// Those on which an output depends.
  std::vector<bool> needed_nodes() const {
    std::vector<bool> values(data_.values.size()), nodes(data_.nodes.size());
    for (const NamedValue& output : data_.outputs) values[output.value] = true;
    for (std::size_t i = data_.nodes.size(); i-- > 0;) {  // operands come before those who read them
      for (const std::uint32_t output : data_.nodes[i].outputs) nodes[i] = nodes[i] || values[output];
      if (!nodes[i]) continue;
      for (const std::uint32_t input : data_.nodes[i].inputs) values[input] = true;
    }
    return nodes;
  }

  std::vector<std::int64_t> dims(const ValueSpec& spec) const {
    std::vector<std::int64_t> all(spec.shape.dims().begin(), spec.shape.dims().end());
    if (spec.place == Place::kRows && !all.empty()) all[0] = kOnnxAnySize;
    return all;
  }

  Status emit_node(const Node& node) {
    const OnnxRule rule = node.op == nullptr ? nullptr : onnx_rule(node.op->name);
    if (rule == nullptr) {
      return Error{Code::kInvalidArgument, fmt::format("onnx: the op \"{}\" has no mapping (its result is {})",
                                                       node.op == nullptr ? "joint" : node.op->name,
                                                       data_.values[node.outputs[0]].spec.shape.to_string())};
    }
    std::vector<std::string> in;
    std::vector<ValueSpec> specs;
    for (const std::uint32_t input : node.inputs) {
      in.push_back(name_of(input));
      specs.push_back(data_.values[input].spec);
      if (in.back().empty()) {
        return Error{Code::kInvalidArgument,
                     fmt::format("onnx: the op \"{}\" reads a result that has no mapping", node.op->name)};
      }
    }
    names_[node.outputs[0]] = rule({to_, in, specs, data_.values[node.outputs[0]].spec, node.attr});
    return {};
  }

  /// Empty: an output other than the first of a node. Makes the initialiser of a parameter, state or constant.
  const std::string& name_of(std::uint32_t id) {
    const Value& value = data_.values[id];
    std::string& name = names_[id];
    if (!name.empty() || value.source == Source::kNode) return name;
    const auto tensor = [&](ParamBuffer& buffer) {
      const ParamEntry& entry = buffer.layout().entries[static_cast<std::size_t>(value.entry)];
      return to_.floats(entry.name, entry.shape, buffer.tensor(entry));
    };
    if (value.source == Source::kParam) {
      name = tensor(program_.group(static_cast<std::size_t>(value.index)));
    } else if (value.source == Source::kState) {
      name = tensor(program_.state());
    } else if (value.source == Source::kConstant) {
      const std::vector<float>& values = data_.constants[static_cast<std::size_t>(value.index)];
      name = to_.floats(fmt::format("constant_{}", value.index), value.spec.shape, values);
    }
    return name;
  }

  const GraphData& data_;
  Program& program_;
  OnnxBuilder to_;
  std::vector<std::string> names_;  // by value id
};

}  // namespace

Result<std::string> to_onnx(const Graph& graph, Program& program, const OnnxModelInfo& info) {
  TROUPE_TRY(graph.status());
  Emitter emitter(graph, program);
  TROUPE_TRY(emitter.emit());
  std::string file = emitter.builder().finish(info);
  if (file.size() > kMaxBytes) {
    return Error{Code::kInvalidArgument,
                 fmt::format("onnx: the model has {} bytes, and a file holds at most {}", file.size(), kMaxBytes)};
  }
  return file;
}

}  // namespace troupe::learner
