#pragma once
// Observations less their running mean, over their running deviation: what networks see whose environment's numbers
// have different units. The learner's batches move the statistics, and these are published with the policy's
// parameters (published_layout()), so everyone who acts normalises as the learner did at that version.
#include <string_view>

#include <troupe/learner/graph/graph.hpp>
#include <troupe/learner/replicate/replica.hpp>

namespace troupe::learner::control {

/// What networks see of an observation x, [rows, n]: x itself, or with `normalise` (x - mean) / sqrt(variance + 1e-8),
/// at most 10 from 0, by the statistics as they were before this step, which are the state "policy/observation/mean"
/// and so on, where "policy" is the group that is published.
Var observed(Graph& graph, bool normalise, Var x, std::string_view published = "policy");
/// Moves the statistics by a step's observations, [rows, n], as learn_moments() (running_moments.hpp) says.
void learn_observations(ReplicaContext& context, Var observation, std::string_view published = "policy");

}  // namespace troupe::learner::control
