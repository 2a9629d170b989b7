#pragma once
// Layer normalisation (Ba et al. 2016) over the last dimension.
#include <troupe/learner/graph/op.hpp>
#include <troupe/learner/ops/elementwise.hpp>

namespace troupe::learner {

/// kind(gain * (z - mean(z)) / sqrt(var(z) + epsilon) + offset) with z = x + bias, in one pass over each row; variance
/// divides by n. x: [rows, n]; bias, gain, offset: [n]. epsilon 1e-5 is Sonnet's and Haiku's; PyTorch's default too.
/// The bias is that of the linear layer before, which should then be a matmul().
Var layer_norm(Var x, Var bias, Var gain, Var offset, Activation kind = Activation::kNone, double epsilon = 1e-5);

}  // namespace troupe::learner
