#pragma once
// Single nodes of graphs with their operands and what the processor makes of them in float64: what the engines' kernels
// and rules are compared with (cuda/kernels_test.cpp, pjrt/ops_test.cpp). The graphs are those of kernel_graphs.hpp.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <troupe/core/rng.hpp>
#include <troupe/learner/graph/graph_data.hpp>

namespace troupe::learner {

using Values = std::vector<double>;

/// As a device stores them.
double rounded(double x, DType dtype);
std::vector<std::byte> stored(const Values& values, DType dtype);
Values loaded(const std::vector<std::byte>& bytes, DType dtype);

/// An operand of one node: what it is on both sides.
struct Side {
  ValueSpec spec;
  DType dtype = DType::kF32;   // in the device's memory
  Values values;               // of an output: the expected ones
  double processor_error = 0;  // of an output: the largest of the processor in float32
  bool rounded = false;        // of an output: to bfloat16 at its end, although it is float32
};
/// One node with its operands.
struct NodeCase {
  const OpDef* op = nullptr;
  Attr attr;
  std::int64_t batch = 0, valid = 0;  // rows
  std::vector<Side> in, out;
  bool bf16 = false;
  std::string describe() const;
};

std::vector<Shape> shapes_of(const std::vector<Side>& sides);
/// Fills in what is expected of the outputs.
void compute_expected(NodeCase& node);
/// The first element that differs too much, in words, or nothing.
std::string difference(const OpDef& op, const Side& side, const std::vector<std::byte>& bytes);

/// What the value of a source is, by its name.
Values draw(Rng& rng, const std::string& name, std::int64_t elements);

/// How a walk makes its nodes.
struct Walk {
  std::int64_t valid = 0;  ///< rows that are data
  bool bf16 = false;       ///< only those that a bfloat16 program on a GPU stores so
  std::uint64_t seed = 7;
  /// Changes what was drawn for a source.
  std::function<void(const ValueSpec& spec, Values& values)> spoil = {};
};
/// Walks the graph's nodes in order on the processor, and gives each to `check`.
void walk(const Graph& graph, const Walk& how, const std::function<void(const NodeCase&)>& check);

}  // namespace troupe::learner
