#pragma once
// Same numbers, other places.
#include <span>

#include <troupe/core/tensor.hpp>
#include <troupe/learner/graph/op.hpp>

namespace troupe::learner {

/// Joins two matrices along the last dimension: [rows, n], [rows, m] -> [rows, n + m].
Var concat(Var a, Var b);
/// Columns [begin, end) of the last dimension.
Var slice(Var x, std::int64_t begin, std::int64_t end);
/// Same elements in row-major order under another shape; no copy. Dimension 0 of a value split by rows stays a multiple
/// of the batch.
Var reshape(Var x, const Shape& shape);

}  // namespace troupe::learner
