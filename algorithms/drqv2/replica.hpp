#pragma once
// DrQ-v2's step as a replica.
#include <memory>

#include <troupe/algorithms/drqv2/options.hpp>
#include <troupe/learner/graph/graph.hpp>
#include <troupe/learner/replicate/replica.hpp>

namespace troupe::learner::drqv2 {

/// Columns of a batch: control::image_transitions().
Signature transitions(const Options& options);

/// What a step draws. Shifts of both images: [rows, 2] in [0, 1) (ops/random_shift.hpp). Noise on the next action and
/// on that which the policy is judged by, with its deviation: [rows, action_size].
struct Draws {
  Var shift, next_shift;
  Var next_noise, noise;
};

struct Losses {
  ParamGroup encoder, policy, critic;
  Var critic_loss;  ///< scalar: the sum of both critics' mean squared errors; the encoder's loss too
  Var policy_loss;  ///< scalar: minus the mean of the smaller value of the policy's noisy actions
  Var q_mean;       ///< scalar: of the first critic
  Var td_error;     ///< [rows]: mean of both critics' absolute errors
};
Losses build_losses(Graph& graph, const Options& options, const StepInputs& inputs, const Draws& draws);

/// input: transitions(). Metrics: critic_loss, policy_loss, q_mean, sigma; output: td_error. All gradients of a step
/// are taken before the first update, where the published code judges the policy by critics that are one step on.
std::unique_ptr<Replica> training(const Options& options, InputFn input);

}  // namespace troupe::learner::drqv2
