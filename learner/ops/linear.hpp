#pragma once
// Products of matrices, with the passes over their results that are worth fusing.
#include <troupe/learner/graph/op.hpp>
#include <troupe/learner/ops/elementwise.hpp>

namespace troupe::learner {

/// kind(x weight + bias). x: [rows, in]; weight: [in, out]; bias: [out]. Returns [rows, out].
/// Bias and activation are one pass over the product. Errors: kShapeMismatch naming both shapes.
Var linear(Var x, Var weight, Var bias, Activation kind = Activation::kNone);
/// op(a) op(b) for matrices; op transposes where asked. a may be split by rows, then it is not transposed and b is
/// replicated. The product of two values split by rows (transpose_a) is a sum over stripes, of the rows that are data.
Var matmul(Var a, Var b, bool transpose_a = false, bool transpose_b = false);
/// x + bias along the last dimension, then `kind`. x: [rows, n]; bias: [n].
Var bias_activation(Var x, Var bias, Activation kind = Activation::kNone);

}  // namespace troupe::learner
