#pragma once
// One step of the SN-GAN as a replica: both losses at the same parameters, two Adams. One pass of the generator and one
// of the discriminator over its images serve both losses. And what evaluators run instead.
#include <cstdint>
#include <memory>

#include <troupe/algorithms/sngan/options.hpp>
#include <troupe/learner/replicate/replica.hpp>

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

/// The output of SnganEvaluation's program: [rows, options.image].
inline constexpr const char* kImages = "images";

/// Generates images for a judge (algorithms/sngan/judge.hpp), in a step that updates nothing: with the moving average
/// where there is one, and batch norm's running statistics. Groups and states have the names that they have in
/// training.
class SnganEvaluation final : public Replica {
 public:
  /// The noise of the first `images` rows follows from the seed, their labels are 0, 1, ..., classes - 1, 0, ...; then
  /// it begins again, so that every evaluation sees the same noise.
  SnganEvaluation(Options options, std::int64_t images, std::uint64_t seed);

  Result<std::unique_ptr<InputPipeline>> input_fn(const InputContext& context) override;
  void step_fn(ReplicaContext& context, const StepInputs& inputs) override;

 private:
  Options options_;
  std::int64_t images_;
  std::uint64_t seed_;
};

}  // namespace troupe::learner::sngan
