#pragma once
// A residual network as a replica: cross-entropy to integer labels, one optimiser. And its judge, the same network in a
// step that updates nothing, for evaluators.
#include <memory>

#include <troupe/algorithms/resnet/options.hpp>
#include <troupe/learner/replicate/replica.hpp>

namespace troupe::learner::resnet {

class ResnetReplica final : public Replica {
 public:
  /// input_fn's pipelines have the columns of batch_signature(options), and may have others.
  ResnetReplica(Options options, InputFn input_fn);

  Result<std::unique_ptr<InputPipeline>> input_fn(const InputContext& context) override;
  /// Metrics: loss (with label smoothing), accuracy (top-1), each the mean over this replica's batch.
  void step_fn(ReplicaContext& context, const StepInputs& inputs) override;

 private:
  Options options_;
  InputFn input_fn_;
};

/// Metrics: loss (without smoothing), accuracy, and top5_accuracy where there are more than 5 classes; of the moving
/// average where there is one, with batch norm's running statistics. Groups and states have the names that they have in
/// training.
class ResnetEvaluation final : public Replica {
 public:
  ResnetEvaluation(Options options, InputFn input_fn);

  Result<std::unique_ptr<InputPipeline>> input_fn(const InputContext& context) override;
  void step_fn(ReplicaContext& context, const StepInputs& inputs) override;

 private:
  Options options_;
  InputFn input_fn_;
};

}  // namespace troupe::learner::resnet
