#pragma once
// TD3's networks, its step as a replica, and its policy alone.
#include <memory>

#include <troupe/algorithms/td3/options.hpp>
#include <troupe/learner/graph/graph.hpp>
#include <troupe/learner/replicate/replica.hpp>

namespace troupe::learner::td3 {

inline constexpr const char* kPolicyGroup = "policy";
inline constexpr const char* kCriticGroup = "critic";

/// observation: [rows, observation_size]. Returns actions in [-1, 1]: [rows, action_size].
Var policy_network(Graph& graph, ParamGroup group, const Options& options, Var observation);

/// The network of acting: "observation" to "action", within the action's bounds.
void build_policy(Graph& graph, const Options& options);

struct Losses {
  ParamGroup policy, critic;
  Var critic_loss;  ///< scalar: the sum of both critics' mean squared errors to the target of the smaller value (Eq.
                    ///< 10)
  Var policy_loss;  ///< scalar: minus the first critic's mean value of the policy's actions
  Var q_mean;       ///< scalar: of the first critic
  Var td_error;     ///< [batch]: the mean of both critics' absolute errors; the new priority in prioritised replay
};

/// Builds networks, their targets and the losses. inputs: the columns of control::transitions(); noise: of the target
/// policy's actions, standard normal, [rows, action_size].
Losses build_losses(Graph& graph, const Options& options, const StepInputs& inputs, Var noise);

/// input: pipelines with exactly those columns. Metrics: critic_loss, policy_loss, q_mean. Output: td_error.
std::unique_ptr<Replica> training(const Options& options, InputFn input);

}  // namespace troupe::learner::td3
