#pragma once
// Values of different shapes beside each other, by NumPy's rule: shapes are compared from their last dimension on, and
// a dimension that is missing or 1 repeats. What is split by rows has all dimensions of the result, so a value for each
// row, [rows], becomes [rows, 1] by reshape() first. add(), sub(), mul(), div() and the choices do this by themselves.
#include <span>

#include <troupe/core/tensor.hpp>
#include <troupe/learner/graph/op.hpp>

namespace troupe::learner {

/// x with the shape of `like`, and split as it is: a parameter [n] beside rows [rows, n].
Var broadcast(Var x, Var like);
/// The sum over those dimensions that `shape` lacks or has 1 in: [rows, samples, n] -> [rows, 1, n], or -> [n], which
/// is a sum over stripes. Rows behind the end of a short batch do not count in a sum over rows.
Var sum_to(Var x, const Shape& shape);

/// Broadcasts all to the shape that they have in common, if there is one; the operation that takes them says what is
/// wrong otherwise. For operations of one's own.
void broadcast_together(std::span<Var> operands);

}  // namespace troupe::learner
