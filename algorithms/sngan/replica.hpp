#pragma once
// The SN-GAN as replicas: a training step, and what evaluators run instead. input_fn of each refuses options that
// validate() refuses; the graph's operations check the columns that a step reads.
#include <cstdint>
#include <memory>

#include <troupe/algorithms/sngan/options.hpp>
#include <troupe/learner/replicate/replica.hpp>

namespace troupe::learner::sngan {

/// One step: both losses at the same parameters, two Adams. One pass of the generator and one of the discriminator over
/// its images serve both losses.
/// input: pipelines with the columns of batch_signature(options), which may have others.
/// Metrics: discriminator_loss, generator_loss, real_logit, fake_logit, each the mean over this replica's batch.
std::unique_ptr<Replica> training(const Options& options, InputFn input);

/// The output of evaluation()'s program: [rows, options.image].
inline constexpr const char* kImages = "images";

/// Generates images for a judge (algorithms/sngan/judge.hpp), in a step that updates nothing: with the moving average
/// where there is one, and batch norm's running statistics. Groups and states have the names that they have in
/// training. The noise of the first `images` rows follows from the seed, their labels are 0, 1, ..., classes - 1, 0,
/// ...; then it begins again, so that every evaluation sees the same noise. Output: kImages.
std::unique_ptr<Replica> evaluation(const Options& options, std::int64_t images, std::uint64_t seed);

}  // namespace troupe::learner::sngan
