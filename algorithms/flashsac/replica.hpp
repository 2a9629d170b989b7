#pragma once
// FlashSAC's step as a replica, and its policy alone. SAC's draw, soft target and temperature with distributional
// critics of unit weights and batch norm. All gradients of a step are taken at the same parameters and running
// statistics, where the reference updates the policy first.
#include <functional>
#include <memory>

#include <troupe/algorithms/control/tanh_gaussian.hpp>
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

/// Builds networks, their targets and the losses. inputs: columns(options), whose rewards are scaled by moments as
/// they are, which learn_returns() may have moved before. training: of what is in training mode.
/// critic_loss is the mean of both critics' cross-entropies to the soft target, td_error that of each
/// row.
control::SoftLosses build_losses(Graph& graph, const Options& options, const StepInputs& inputs,
                                 const control::DrawNoise& noise, const NetworkMode& training);

/// input: pipelines with exactly those columns. Metrics: critic_loss, policy_loss, temperature_loss, q_mean, entropy,
/// alpha. Output: td_error. Batch norm has the statistics of all replicas' rows where they meet within a step.
std::unique_ptr<Replica> training(const Options& options, InputFn input);

}  // namespace troupe::learner::flashsac
