#pragma once
// Batch normalisation (Ioffe & Szegedy 2015) over rows, within a replica or across all of them.
#include <functional>

#include <troupe/learner/graph/op.hpp>
#include <troupe/learner/ops/elementwise.hpp>

namespace troupe::learner {

struct BatchNormOptions {
  /// True: statistics of this batch, and the running ones move. False: the running ones are used and stay.
  bool training = true;
  /// The share of the new statistics: running += momentum * (batch - running). PyTorch's momentum; 1 minus
  /// TensorFlow's.
  double momentum = 0.1;
  double epsilon = 1e-5;  ///< added to the variance, which divides by n
  Activation activation = Activation::kNone;
  /// How a replicated value is summed over replicas, differentiably: ReplicaContext::all_sum makes the statistics those
  /// of the global batch, by samples, however unevenly it is split. Empty: those of this replica's batch.
  std::function<Var(Var)> all_sum;
};

/// activation(gain * (x - mean) / sqrt(variance + epsilon) + offset), with statistics over all rows that are data, of
/// all stripes; a value of higher rank is folded to [rows, n]. Gradients pass through the statistics, also across
/// replicas. One meeting of stripes (and one all-reduce of 2 n + 1 values) forward, another one backward.
/// x: [rows, ..., n], split by rows; gain, offset: [n]; running_mean, running_variance: state [n], which start at 0 and
/// 1. The running variance is unbiased (n - 1), as PyTorch's. Two calls with the same state in a step move it twice.
Var batch_norm(Var x, Var gain, Var offset, Var running_mean, Var running_variance,
               const BatchNormOptions& options = {});

}  // namespace troupe::learner
