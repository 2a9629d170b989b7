#pragma once
// The SN-GAN in two: a replica that trains the generator against a discriminator from outside, and one that trains the
// discriminator on images from outside. For topologies in which each side has replicas, a group and a pace of its own
// (actors/roles/split_gan.hpp); SnganReplica is both in one step.
#include <cstdint>

#include <troupe/algorithms/sngan/options.hpp>
#include <troupe/learner/replicate/replica.hpp>

namespace troupe::learner::sngan {

/// The output of SnganGenerator's program: the images of the step, as the column of fakes_signature().
inline constexpr const char* kFakes = "fake";

inline constexpr const char* kFakeLabels = "fake_label";

/// What travels from one side to the other: fake, float32 [height, width, channels], in [-1, 1]; with classes
/// fake_label, int32 [], the generator's input label.
Signature fakes_signature(const Options& options);

/// Each step makes images; every n_dis-th one also updates the generator. The discriminator's parameters and its u are
/// there to be overwritten before a step. They begin as those of a SnganDiscriminator with the same compile seed do,
/// and each replica has its own copy (VariablePolicy::kLocal), since they may arrive at different times.
class SnganGenerator final : public Replica {
 public:
  /// input_fn's pipelines have the columns of noise_signature(options), and may have others.
  SnganGenerator(Options options, InputFn input_fn);

  Result<std::unique_ptr<InputPipeline>> input_fn(const InputContext& context) override;
  /// Metrics: generator_loss, fake_logit, each the mean over this replica's batch. Output: kFakes.
  void step_fn(ReplicaContext& context, const StepInputs& inputs) override;

 private:
  Options options_;
  InputFn input_fn_;
};

/// Each step updates the discriminator.
class SnganDiscriminator final : public Replica {
 public:
  /// input_fn's pipelines have the columns image and, with classes, label of batch_signature(options), those of
  /// fakes_signature(options), and may have others.
  SnganDiscriminator(Options options, InputFn input_fn);

  Result<std::unique_ptr<InputPipeline>> input_fn(const InputContext& context) override;
  /// Metrics: discriminator_loss, real_logit, fake_logit, each the mean over this replica's batch.
  void step_fn(ReplicaContext& context, const StepInputs& inputs) override;

 private:
  Options options_;
  InputFn input_fn_;
};

/// The columns of noise_signature(options), of whose labels each is as likely. The same for any number of replicas:
/// each row follows from the seed and its number.
InputFn noise_input(const Options& options, std::uint64_t seed);

}  // namespace troupe::learner::sngan
