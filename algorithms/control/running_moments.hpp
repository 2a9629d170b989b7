#pragma once
// Running mean and variance of what the learner's batches hold: of observations, by which networks see them
// (observation_norm.hpp), and of returns, by which rewards are scaled (reward_scale.hpp). They are state of the graph,
// so checkpoints have them.
#include <cstdint>
#include <string_view>

#include <troupe/learner/graph/graph.hpp>
#include <troupe/learner/replicate/replica.hpp>

namespace troupe::learner::control {

/// States "NAME/mean" and so on; 0, 1 and 0 at first.
struct RunningMoments {
  Var mean, variance;  ///< [1, n]
  Var batches;         ///< [1, 1]: how many have moved them
};
RunningMoments running_moments(Graph& graph, std::string_view name, std::int64_t n);

/// Moves them by x, [rows, n], of all replicas where these meet within a step, else of this one (workers of a parameter
/// server, each with moments of its own). They are those of all batches so far, and from a thousand batches on an
/// exponential average of about so many. Graph::latest() gives them as they are then.
void learn_moments(ReplicaContext& context, std::string_view name, Var x);

}  // namespace troupe::learner::control
