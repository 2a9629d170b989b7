#pragma once
// The classifier as a replica: cross-entropy to integer labels, one optimiser. And its judge, the same network in a
// step that updates nothing, for evaluators.
#include <memory>

#include <troupe/algorithms/classifier/options.hpp>
#include <troupe/learner/replicate/replica.hpp>

namespace troupe::learner::classifier {

class ClassifierReplica final : public Replica {
 public:
  /// input_fn's pipelines have the columns of batch_signature(options), and may have others.
  ClassifierReplica(Options options, InputFn input_fn);

  Result<std::unique_ptr<InputPipeline>> input_fn(const InputContext& context) override;
  /// Metrics: loss, accuracy, each the mean over this replica's batch.
  void step_fn(ReplicaContext& context, const StepInputs& inputs) override;

 private:
  Options options_;
  InputFn input_fn_;
};

/// Metrics as above, of the moving average where there is one, with batch norm's running statistics. Groups and states
/// have the names that they have in training.
class ClassifierEvaluation final : public Replica {
 public:
  ClassifierEvaluation(Options options, InputFn input_fn);

  Result<std::unique_ptr<InputPipeline>> input_fn(const InputContext& context) override;
  void step_fn(ReplicaContext& context, const StepInputs& inputs) override;

 private:
  Options options_;
  InputFn input_fn_;
};

}  // namespace troupe::learner::classifier
