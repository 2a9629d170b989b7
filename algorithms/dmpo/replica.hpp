#pragma once
// DMPO's step as a replica: a distributional critic, a policy and the dual variables of its limits, each with an
// optimiser, and hard copies into the targets.
#include <memory>

#include <troupe/algorithms/dmpo/networks.hpp>
#include <troupe/algorithms/dmpo/options.hpp>
#include <troupe/algorithms/dmpo/policy_losses.hpp>
#include <troupe/learner/graph/graph.hpp>
#include <troupe/learner/replicate/replica.hpp>

namespace troupe::learner::dmpo {

struct Losses {
  ParamGroup policy, critic;
  Var critic_loss;  ///< scalar: mean over rows of (weight times) the cross-entropy to the projected target distribution
  PolicyLosses of_policy;
  Var q_mean;    ///< scalar: mean predicted value of the batch's observations and actions
  Var td_error;  ///< [batch]: each row's cross-entropy before weighting; the new priority in prioritised replay
};

/// Builds networks, their targets and the losses; all gradients of a step are taken at the same parameters. inputs: the
/// columns of control::transitions(); noise: of the target policy's actions, standard normal, [batch, samples,
/// action_size].
Losses build_losses(Graph& graph, const Options& options, const StepInputs& inputs, Var noise);

/// input: pipelines with exactly those columns. Metrics: critic_loss, policy_loss, dual_loss, q_mean, and the scalars
/// of PolicyLosses. Output: td_error.
std::unique_ptr<Replica> training(const Options& options, InputFn input);

}  // namespace troupe::learner::dmpo
