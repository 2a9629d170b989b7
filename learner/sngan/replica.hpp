#pragma once
// One step of the SN-GAN as a replica: both losses at the same parameters, two Adams. One pass of the generator and one
// of the discriminator over its images serve both losses.
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

}  // namespace troupe::learner::sngan
