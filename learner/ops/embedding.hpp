#pragma once
// Tables whose rows are looked up by integers.
#include <cstddef>
#include <vector>

#include <troupe/learner/graph/op.hpp>

namespace troupe::learner {

/// Rows of the table: table [vocabulary, n], indices int32 [rows, ...] -> [rows, ..., n]. An index outside the table
/// gives a row of NaN, and one in the gradient, so that the step is skipped and counted.
/// The gradient is zero in rows that no index names.
Var embedding(Var table, Var indices);

/// A parameter whose gradient is zero but for the rows that a batch looks up.
struct EmbeddingTable {
  std::size_t group = 0;  ///< in the order of their making, as Program::group()
  std::size_t entry = 0;  ///< of its layout
};
/// The parameters of online groups that the graph reads by embedding() and nothing else: a parameter server moves their
/// rows instead of all of them.
std::vector<EmbeddingTable> embedding_tables(const Graph& graph);

}  // namespace troupe::learner
