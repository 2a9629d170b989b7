#pragma once
// Normalisation of each row by itself: layer normalisation (Ba et al. 2016) and that by the root of the mean square
// (Zhang & Sennrich 2019), over the last dimension.
#include <troupe/learner/graph/op.hpp>
#include <troupe/learner/ops/elementwise.hpp>

namespace troupe::learner {

/// kind(gain * (z - mean(z)) / sqrt(var(z) + epsilon) + offset) with z = x + bias, in one pass over each row; variance
/// divides by n. x: [rows, n]; bias, gain, offset: [n]. epsilon 1e-5 is Sonnet's and Haiku's; PyTorch's default too.
/// The bias is that of the linear layer before, which should then be a matmul().
Var layer_norm(Var x, Var bias, Var gain, Var offset, Activation kind = Activation::kNone, double epsilon = 1e-5);

/// gain * x / sqrt(mean(x^2) + epsilon). x: [rows, n]; gain: [n].
Var rms_norm(Var x, Var gain, double epsilon = 1e-6);

}  // namespace troupe::learner
