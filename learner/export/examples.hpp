#pragma once
// A network run once on made-up inputs: for samples, and for whoever wants to see that another framework computes
// alike.
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/learner/engine/program.hpp>
#include <troupe/learner/graph/graph.hpp>

namespace troupe::learner {

struct ExampleTensor {
  std::string name;
  Shape shape;
  DType dtype = DType::kF32;      ///< or kI32, or kU8
  std::vector<float> reals = {};  ///< one of the three is filled
  std::vector<std::int32_t> integers = {};
  std::vector<std::uint8_t> bytes = {};
};

/// As many rows as the graph's batch.
struct Example {
  std::vector<ExampleTensor> inputs, outputs;
};

/// How many values an input of integers may have: the rows of the smallest table that it looks up, 1 when it looks up
/// none. 0 when the graph has no such input.
std::int64_t choices(const Graph& graph, std::string_view input);

/// Runs `program`, which was compiled from `graph`, on standard normal values, on any bytes, and on integers that look
/// up rows of a table; given: inputs of integers, by name, that have these values instead, one a row. Errors:
/// kNotFound: no such input of integers; kShapeMismatch: not a value a row; kOutOfRange: the table has no such row; the
/// program's.
Result<Example> run_example(const Graph& graph, Program& program, std::uint64_t seed,
                            const std::map<std::string, std::vector<std::int32_t>>& given = {});

/// A safetensors file of "input/NAME" and "output/NAME".
Result<std::vector<std::byte>> encode_example(const Example& example);

}  // namespace troupe::learner
