#pragma once
// Whether a network with batch norm is built for a training step or for judging, and what it has of the replica that
// builds it. Taken by the networks of algorithms/classifier, algorithms/resnet and algorithms/sngan.
#include <cstdint>
#include <functional>
#include <string>

#include <troupe/learner/graph/graph.hpp>
#include <troupe/learner/replicate/replica.hpp>

namespace troupe::learner {

struct NetworkMode {
  bool training = true;             ///< of batch norm
  std::function<Var(Var)> all_sum;  ///< of batch norm in training; empty: statistics of this replica alone
  std::function<void(Var)> shared;  ///< called with each state that all_sum makes equal on all replicas; may be empty
  int devices = 1;  ///< logical devices over which a ResNet's blocks are spread in order, as even stages
};

/// Of a training step. sync_batch_norm: with the statistics of the global batch. Holds the context.
NetworkMode training_mode(ReplicaContext& context, bool sync_batch_norm);

/// Batch norm's.
struct RunningStatistics {
  Var mean, variance;
};

/// States "NAME/mean" and "NAME/variance": [channels].
RunningStatistics running_statistics(Graph& graph, const std::string& name, std::int64_t channels,
                                     const NetworkMode& mode);

}  // namespace troupe::learner
