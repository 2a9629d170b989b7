#pragma once
// The SN-GAN in two: a replica that trains the generator against a discriminator from outside, and one that trains the
// discriminator on images from outside. For topologies in which each side has replicas, a group and a pace of its own
// (actors/roles/split_gan.hpp); training() (replica.hpp) is both in one step.
#include <cstdint>
#include <memory>

#include <troupe/algorithms/sngan/options.hpp>
#include <troupe/learner/replicate/replica.hpp>

namespace troupe::learner::sngan {

/// The output of generator_training()'s program: the images of the step, as the column of fakes_signature().
inline constexpr const char* kFakes = "fake";

inline constexpr const char* kFakeLabels = "fake_label";

/// What travels from one side to the other: fake, float32 [height, width, channels], in [-1, 1]; with classes
/// fake_label, int32 [], the generator's input label.
Signature fakes_signature(const Options& options);

/// Each step makes images; every n_dis-th one also updates the generator. The discriminator's parameters and its u are
/// there to be overwritten before a step. They begin as those of discriminator_training() with the same compile seed
/// do, and each replica has its own copy (VariablePolicy::kLocal), since they may arrive at different times.
/// input: pipelines with the columns of noise_signature(options), which may have others.
/// Metrics: generator_loss, fake_logit, each the mean over this replica's batch. Output: kFakes.
std::unique_ptr<Replica> generator_training(const Options& options, InputFn input);

/// Each step updates the discriminator.
/// input: pipelines with the columns image and, with classes, label of batch_signature(options), and those of
/// fakes_signature(options); they may have others.
/// Metrics: discriminator_loss, real_logit, fake_logit, each the mean over this replica's batch.
std::unique_ptr<Replica> discriminator_training(const Options& options, InputFn input);

/// The columns of noise_signature(options), of whose labels each is as likely. The same for any number of replicas:
/// each row follows from the seed and its number.
InputFn noise_input(const Options& options, std::uint64_t seed);

}  // namespace troupe::learner::sngan
