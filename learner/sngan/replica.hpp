#pragma once
// One step of the SN-GAN as a replica: both losses at the same parameters, two Adams. One pass of the generator and one
// of the discriminator over its images serve both losses. And its judge, for evaluators.
#include <memory>

#include <troupe/learner/replica.hpp>
#include <troupe/learner/sngan/options.hpp>

namespace troupe::learner::sngan {

class SnganReplica final : public Replica {
 public:
  /// input_fn's pipelines have the columns of batch_signature(options), and may have others.
  SnganReplica(Options options, InputFn input_fn);

  Result<std::unique_ptr<InputPipeline>> input_fn(const InputContext& context) override;
  /// Metrics: discriminator_loss, generator_loss, real_logit, fake_logit, each the mean over this replica's batch.
  void step_fn(ReplicaContext& context, const StepInputs& inputs) override;

 private:
  Options options_;
  InputFn input_fn_;
};

/// How far generated images are from real ones, in a step that updates nothing: with the moving average where there is
/// one, and batch norm's running statistics. Groups and states have the names that they have in training.
class SnganEvaluation final : public Replica {
 public:
  /// As of SnganReplica; batches are full.
  SnganEvaluation(Options options, InputFn input_fn);

  Result<std::unique_ptr<InputPipeline>> input_fn(const InputContext& context) override;
  /// Metric: feature_distance, the mean squared difference between the mean features of the batch's real images and of
  /// as many generated ones. A feature is a rectified random projection (a random-feature kernel's mean discrepancy,
  /// Rahimi & Recht 2007, Gretton et al. 2012), so images that are right on average but all alike are far off too.
  /// About 2 / rows for two batches of real images, whose features have a variance of some 1. No Frechet distance:
  /// those of one data set compare with each other, and with nothing else.
  void step_fn(ReplicaContext& context, const StepInputs& inputs) override;

 private:
  Options options_;
  InputFn input_fn_;
};

}  // namespace troupe::learner::sngan
