#pragma once
// D4PG's step as a replica: distributional critic, deterministic policy gradient through it, two optimisers, target
// copies. Its input_fn is given by the owner, usually batches that replay sampled.
#include <memory>

#include <troupe/algorithms/d4pg/options.hpp>
#include <troupe/learner/replicate/replica.hpp>

namespace troupe::learner::d4pg {

/// What a step from images draws, shifts of both images: [rows, 2] in [0, 1) (ops/random_shift.hpp).
struct Draws {
  Var shift, next_shift;
};

/// The two losses of one step; what else is observable beside them. All gradients are taken at the same parameters.
struct Losses {
  ParamGroup policy, critic;
  ParamGroup encoder;  ///< only from images; learns from the critic's loss
  Var critic_loss;  ///< scalar: mean over rows of (weight times) the cross-entropy to the projected target distribution
  /// Scalar: minus the mean value of the policy's actions, in next_observation, as Acme evaluates it; from images in
  /// pixels, by what the encoder sees there, as DrQ does, so that the policy learns on what it acts with.
  Var policy_loss;
  Var q_mean;    ///< scalar: mean predicted value of the batch's observations and actions
  Var td_error;  ///< [batch]: each row's cross-entropy before weighting; the new priority in prioritised replay
};

/// Builds networks, their targets and the losses. inputs: the columns of batch_signature(). draws: only from images.
Losses build_losses(Graph& graph, const Options& options, const StepInputs& inputs, const Draws& draws = {});

/// input: pipelines with exactly batch_signature(options). input_fn refuses others, and options that validate()
/// refuses. Metrics: critic_loss, policy_loss, q_mean, each the mean over this replica's batch. Output: td_error.
std::unique_ptr<Replica> training(const Options& options, InputFn input);

}  // namespace troupe::learner::d4pg
