#pragma once
// D4PG's step as a replica: distributional critic, deterministic policy gradient through it, two Adams, target copies.
// Its input_fn is given by the owner, usually batches that replay sampled.
#include <memory>

#include <troupe/algorithms/d4pg/options.hpp>
#include <troupe/learner/replicate/replica.hpp>

namespace troupe::learner::d4pg {

/// The two losses of one step; what else is observable beside them. All gradients are taken at the same parameters.
struct Losses {
  ParamGroup policy, critic;
  Var critic_loss;  ///< scalar: mean over rows of (weight times) the cross-entropy to the projected target distribution
  Var policy_loss;  ///< scalar: minus the mean value of the policy's actions in next_observation, as Acme evaluates it
  Var q_mean;       ///< scalar: mean predicted value of the batch's observations and actions
  Var td_error;     ///< [batch]: each row's cross-entropy before weighting; the new priority in prioritised replay
};

/// Builds networks, their targets and the losses. inputs: the columns of batch_signature().
Losses build_losses(Graph& graph, const Options& options, const StepInputs& inputs);

class D4pgReplica final : public Replica {
 public:
  /// input_fn's pipelines have batch_signature(options).
  D4pgReplica(Options options, InputFn input_fn);

  Result<std::unique_ptr<InputPipeline>> input_fn(const InputContext& context) override;
  /// Metrics: critic_loss, policy_loss, q_mean, each the mean over this replica's batch. Output: td_error.
  void step_fn(ReplicaContext& context, const StepInputs& inputs) override;

 private:
  Options options_;
  InputFn input_fn_;
};

}  // namespace troupe::learner::d4pg
