#pragma once
// Settings of TD3 (Fujimoto et al. 2018, arXiv 1802.09477). Defaults are the paper's, as CleanRL's
// td3_continuous_action.py has them.
#include <cstdint>
#include <vector>

#include <troupe/algorithms/control/environment_shape.hpp>
#include <troupe/core/error.hpp>
#include <troupe/learner/graph/optimizer.hpp>
#include <troupe/learner/ops/elementwise.hpp>

namespace troupe::learner::td3 {

struct Options {
  control::EnvironmentShape environment;

  std::vector<std::int64_t> policy_sizes = {256, 256};
  Activation policy_activation = Activation::kRelu;
  std::vector<std::int64_t> critic_sizes = {256, 256};  ///< of each of the two
  Activation critic_activation = Activation::kRelu;

  OptimizerSpec policy_optimizer = {.rule = Adam{.learning_rate = 3e-4}};
  OptimizerSpec critic_optimizer = {.rule = Adam{.learning_rate = 3e-4}};
  std::int64_t policy_period = 2;  ///< steps of the critics to one of the policy and of all targets (section 5.2)
  double target_rate = 0.005;      ///< tau, by which targets follow at each of their updates
  // Target policy smoothing (section 5.3), in units of half the action's range.
  double target_noise = 0.2;            ///< deviation
  double target_noise_clip = 0.5;       ///< at most that far
  bool normalise_observations = false;  ///< control/observation_norm.hpp
  /// Batches carry importance weights of prioritised replay, by which rows of the critics' loss are multiplied.
  bool importance_weights = false;
};

/// Errors: kInvalidArgument naming the option, got and expected.
Status validate(const Options& options);

}  // namespace troupe::learner::td3
