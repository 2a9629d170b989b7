#pragma once
// FlashSAC's step as a replica, and its policy alone. SAC's draw, soft target and temperature with distributional
// critics of unit weights and batch norm. All gradients of a step are taken at the same parameters and running
// statistics, where the reference updates the policy first.
#include <functional>
#include <memory>

#include <troupe/algorithms/flashsac/options.hpp>
#include <troupe/learner/graph/graph.hpp>
#include <troupe/learner/replicate/network_mode.hpp>
#include <troupe/learner/replicate/replica.hpp>

namespace troupe::learner::flashsac {

inline constexpr const char* kPolicyGroup = "policy";
inline constexpr const char* kCriticGroup = "critic";
inline constexpr const char* kTemperatureGroup = "temperature";

/// The network of acting, with running statistics: "observation" to "mean" and "stddev" of the Gaussian, and to
/// "action", tanh of the mean within the action's bounds.
void build_policy(Graph& graph, const Options& options);

struct Losses {
  ParamGroup policy, critic, temperature;
  Var critic_loss;       ///< scalar: mean of both critics' cross-entropies to the soft target
  Var policy_loss;       ///< scalar: mean of alpha log pi - the smaller value
  Var temperature_loss;  ///< scalar: mean of alpha (entropy - the target entropy)
  Var q_mean;            ///< scalar: of the first critic
  Var entropy;           ///< scalar: minus the mean of log pi
  Var alpha;             ///< scalar
  Var td_error;          ///< [batch]: the mean of both critics' cross-entropies
};

/// Of the two draws of a step: standard normal, [rows, action_size] both.
struct Noise {
  Var next_action, action;
};

/// Builds networks, their targets and the losses. inputs: columns(options), whose rewards are scaled by moments as
/// they are, which learn_returns() may have moved before. training: of what is in training mode.
Losses build_losses(Graph& graph, const Options& options, const StepInputs& inputs, const Noise& noise,
                    const NetworkMode& training);

/// input: pipelines with exactly those columns. Metrics: critic_loss, policy_loss, temperature_loss, q_mean, entropy,
/// alpha. Output: td_error. Batch norm has the statistics of all replicas' rows where they meet within a step.
std::unique_ptr<Replica> training(const Options& options, InputFn input);

}  // namespace troupe::learner::flashsac
