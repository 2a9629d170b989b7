#include <troupe/learner/export/examples.hpp>

#include <fmt/format.h>

#include <algorithm>

#include <troupe/core/rng.hpp>
#include <troupe/learner/graph_data.hpp>
#include <troupe/messages/safetensors.hpp>

namespace troupe::learner {
namespace {

/// How many rows the smallest table has that is looked up by this input; 1 when none is.
std::int64_t rows_to_choose(const GraphData& data, std::uint32_t input) {
  std::int64_t rows = 0;
  for (const Node& node : data.nodes) {
    if (node.op == nullptr || node.op->name != "embedding" || node.inputs[1] != input) continue;
    const std::int64_t own = data.values[node.inputs[0]].spec.shape[0];
    rows = rows == 0 ? own : std::min(rows, own);
  }
  return std::max<std::int64_t>(rows, 1);
}

Status check_chosen(const GraphData& data, const std::map<std::string, std::int64_t>& chosen) {
  for (const auto& [name, value] : chosen) {
    const auto input = std::ranges::find(data.inputs, name, &InputDef::name);
    if (input == data.inputs.end() || data.values[input->value].spec.dtype != DType::kI32) {
      return Error{Code::kNotFound, fmt::format("the network has no input \"{}\" to choose", name)};
    }
    const std::int64_t rows = rows_to_choose(data, input->value);
    if (value < 0 || value >= rows) {
      return Error{Code::kOutOfRange, fmt::format("{} is {}, expected 0 to {}", name, value, rows - 1)};
    }
  }
  return {};
}

}  // namespace

Result<Example> run_example(const Graph& graph, Program& program, std::uint64_t seed,
                            const std::map<std::string, std::int64_t>& chosen) {
  const GraphData& data = GraphAccess::data(graph);
  TROUPE_TRY(check_chosen(data, chosen));
  Rng rng(seed);
  Example example;
  for (const InputDef& input : data.inputs) {
    const ValueSpec& spec = data.values[input.value].spec;
    const auto size = static_cast<std::size_t>(spec.shape.elements());
    ExampleTensor& tensor = example.inputs.emplace_back();
    tensor = {.name = input.name, .shape = spec.shape, .dtype = spec.dtype};
    if (spec.dtype == DType::kI32) {
      const auto rows = static_cast<std::uint64_t>(rows_to_choose(data, input.value));
      const auto fixed = chosen.find(input.name);
      tensor.integers.resize(size);
      for (std::int32_t& value : tensor.integers) {
        value = static_cast<std::int32_t>(fixed == chosen.end() ? static_cast<std::int64_t>(rng.below(rows))
                                                                : fixed->second);
      }
    } else {
      tensor.reals.resize(size);
      for (float& value : tensor.reals) value = static_cast<float>(rng.normal());
    }
  }
  for (const ExampleTensor& tensor : example.inputs) {  // which stay where they are from now on
    TROUPE_TRY(tensor.dtype == DType::kI32 ? program.bind(tensor.name, std::span(tensor.integers))
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
      const bool integers = tensor.dtype == DType::kI32;
      tensors.push_back(
          {prefix + tensor.name, tensor.dtype, tensor.shape,
           integers ? std::as_bytes(std::span(tensor.integers)) : std::as_bytes(std::span(tensor.reals))});
    }
  };
  add("input/", example.inputs);
  add("output/", example.outputs);
  return messages::encode_safetensors(tensors, {});
}

}  // namespace troupe::learner
