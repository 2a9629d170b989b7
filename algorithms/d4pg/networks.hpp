#pragma once
// D4PG's two networks, as Acme builds them: a LayerNormMLP (linear, layer norm, tanh, then linear + ELU layers) with a
// linear head. The learner applies them to online and target groups, acting to the group "policy" alone; all three get
// the same layout, because all come through here.
#include <troupe/algorithms/d4pg/options.hpp>
#include <troupe/learner/graph/graph.hpp>

namespace troupe::learner::d4pg {

/// observation: [rows, observation_size]. Returns actions within their bounds: [rows, action_size].
Var policy_network(Graph& graph, ParamGroup group, const Options& options, Var observation);

/// observation: [rows, observation_size], action: [rows, action_size].
/// Returns the logits of the value distribution over options.support: [rows, atoms].
Var critic_network(Graph& graph, ParamGroup group, const Options& options, Var observation, Var action);

/// The online groups' names, in which parameters are published and stored.
inline constexpr const char* kPolicyGroup = "policy";
inline constexpr const char* kCriticGroup = "critic";

}  // namespace troupe::learner::d4pg
