#pragma once
// DMPO's two networks, as Acme builds them: a LayerNormMLP under a Gaussian head, and one under the logits of a value
// distribution. An action has two units here: the Gaussian is over one whose bounds are [-1, 1] (Acme's canonical
// spec), and is not squashed, so that draws may lie beyond them; critics and environments have the environment's own.
#include <troupe/algorithms/dmpo/options.hpp>
#include <troupe/learner/graph/graph.hpp>

namespace troupe::learner::dmpo {

inline constexpr const char* kPolicyGroup = "policy";
inline constexpr const char* kCriticGroup = "critic";
inline constexpr const char* kDualsGroup = "duals";
/// The group that acts: Graph::target() of kPolicyGroup.
inline constexpr const char* kActingGroup = "policy.target";

/// What the networks see of an observation.
Var seen(Graph& graph, const Options& options, Var observation);

/// A Gaussian for each action dimension, [rows, action_size] both.
struct Gaussian {
  Var mean, stddev;  ///< the latter at least 1e-6, and 0.7 at the beginning
};
/// observation: seen, [rows, observation_size].
Gaussian policy_network(Graph& graph, ParamGroup group, const Options& options, Var observation);

/// The network of acting: "observation" to "mean" and "stddev" of the Gaussian, and to "action", what its mean is for
/// the environment.
void build_policy(Graph& graph, const Options& options);

/// What the environment is told of an action whose bounds are [-1, 1], which may lie beyond them.
Var told(Graph& graph, const Options& options, Var action);

/// Logits over options.support, [rows, atoms], of actions as the environment has them, which are clipped into its
/// bounds first.
Var critic_network(Graph& graph, ParamGroup group, const Options& options, Var observation, Var action);

}  // namespace troupe::learner::dmpo
