#pragma once
// SAC's networks, its step as a replica, and its policy alone.
#include <memory>

#include <troupe/algorithms/control/tanh_gaussian.hpp>
#include <troupe/algorithms/sac/options.hpp>
#include <troupe/learner/graph/graph.hpp>
#include <troupe/learner/replicate/replica.hpp>

namespace troupe::learner::sac {

inline constexpr const char* kPolicyGroup = "policy";
inline constexpr const char* kCriticGroup = "critic";
inline constexpr const char* kTemperatureGroup = "temperature";

/// Its log_stddev is within [-5, 2] (CleanRL's bounds).
control::Gaussian policy_network(Graph& graph, ParamGroup group, const Options& options, Var observation);

/// The network of acting: "observation" to "mean" and "stddev" of the Gaussian, and to "action", the mean within the
/// action's bounds.
void build_policy(Graph& graph, const Options& options);

/// Builds networks, their targets and the losses; all gradients of a step are taken at the same parameters. inputs: the
/// columns of control::transitions().
/// critic_loss is the sum of both critics' mean squared errors to the soft target, td_error the
/// mean of their absolute errors.
control::SoftLosses build_losses(Graph& graph, const Options& options, const StepInputs& inputs,
                                 const control::DrawNoise& noise);

/// input: pipelines with exactly those columns. Metrics: critic_loss, policy_loss, temperature_loss, q_mean, entropy,
/// alpha. Output: td_error.
std::unique_ptr<Replica> training(const Options& options, InputFn input);

}  // namespace troupe::learner::sac
