#pragma once
// Settings of DrQ-v2 (Yarats et al. 2021, arXiv 2107.09645): DDPG with n-step returns on images that are shifted each
// time that they are learnt from. Defaults are the paper's for tasks of medium difficulty.
#include <cstdint>
#include <vector>

#include <troupe/algorithms/control/environment_shape.hpp>
#include <troupe/algorithms/control/image_encoder.hpp>
#include <troupe/core/error.hpp>
#include <troupe/learner/graph/optimizer.hpp>
#include <troupe/learner/ops/elementwise.hpp>

namespace troupe::learner::drqv2 {

struct Options {
  control::ImageEncoder encoder;
  control::EnvironmentShape environment;  ///< observation_size: elements of `encoder.pixels`

  std::vector<std::int64_t> policy_sizes = {1024, 1024};
  Activation policy_activation = Activation::kRelu;
  std::vector<std::int64_t> critic_sizes = {1024, 1024};  ///< of each of the two
  Activation critic_activation = Activation::kRelu;

  OptimizerSpec encoder_optimizer = {.rule = Adam{.learning_rate = 1e-4}};
  OptimizerSpec policy_optimizer = {.rule = Adam{.learning_rate = 1e-4}};
  OptimizerSpec critic_optimizer = {.rule = Adam{.learning_rate = 1e-4}};
  double target_rate = 0.01;  ///< tau, by which the critics' targets follow at each step

  // Of the noise on actions, in units of half the action's range: its deviation goes linearly from the first to the
  // last within so many env steps. The learner does not know these: it takes its own steps, times a factor.
  double sigma = 1;
  double final_sigma = 0.1;
  std::int64_t sigma_env_steps = 500'000;
  double env_steps_per_learner_step = 2;
  double noise_clip = 0.3;  ///< the learner's noise is at most this far from 0

  /// Batches carry importance weights of prioritised replay, by which rows of the critics' loss are multiplied.
  bool importance_weights = false;
};

/// Errors: kInvalidArgument naming the option, got and expected.
Status validate(const Options& options);

}  // namespace troupe::learner::drqv2
