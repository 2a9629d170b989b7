#pragma once
// DrQ-v2's networks: a policy and critics that read what one encoder of images sees.
#include <troupe/algorithms/control/mlp.hpp>
#include <troupe/algorithms/drqv2/options.hpp>
#include <troupe/learner/graph/graph.hpp>

namespace troupe::learner::drqv2 {

inline constexpr const char* kPolicyGroup = "policy";
inline constexpr const char* kCriticGroup = "critic";

/// seen: what control::encode() returned. Returns actions in [-1, 1]: [rows, action_size].
Var policy_network(Graph& graph, ParamGroup group, const Options& options, Var seen);
/// Two values of the same actions, by networks of their own behind features that they share. action: within its bounds.
control::TwinValues critic_networks(Graph& graph, ParamGroup group, const Options& options, Var seen, Var action);

/// The network of acting: "pixels" to "action", within the action's bounds. Groups: policy, encoder.
void build_policy(Graph& graph, const Options& options);

}  // namespace troupe::learner::drqv2
