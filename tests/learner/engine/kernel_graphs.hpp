#pragma once
// Graphs that together contain every operation that has a kernel, each with its gradient, for the tests that run their
// nodes on a device and on the processor (cuda/kernels_test.cpp, pjrt/ops_test.cpp).
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <troupe/learner/graph/graph.hpp>

namespace troupe::learner {

/// Sizes of a graph's values: matrices [rows, cols], or images [rows, height, width, cols].
struct Sizes {
  std::int64_t rows = 1, cols = 1;
  std::int64_t height = 0, width = 0;
};
std::string to_string(const Sizes& sizes);

/// Inputs, parameters and states are filled by their names: "positive..." with 0.5 to 1.5, integers and bytes "...<11"
/// with 0 to 10, all others with -1 to 2, so that sums do not cancel out.
struct GraphCase {
  std::string name;
  std::function<void(Graph& graph, const Sizes& sizes)> build;
  std::vector<Sizes> sizes;
};
void PrintTo(const GraphCase& graph, std::ostream* out);

std::vector<GraphCase> kernel_graphs();

/// Names of the operations that the sources define.
std::set<std::string> defined_operations();

}  // namespace troupe::learner
