#pragma once
// Settings of SAC with a learned temperature (Haarnoja et al. 2018, arXiv 1812.05905). Defaults are CleanRL's
// sac_continuous_action.py, but that the policy learns in every step.
#include <cstdint>
#include <vector>

#include <troupe/algorithms/control/environment_shape.hpp>
#include <troupe/core/error.hpp>
#include <troupe/learner/graph/optimizer.hpp>
#include <troupe/learner/ops/elementwise.hpp>

namespace troupe::learner::sac {

struct Options {
  control::EnvironmentShape environment;

  std::vector<std::int64_t> policy_sizes = {256, 256};
  Activation policy_activation = Activation::kRelu;
  std::vector<std::int64_t> critic_sizes = {256, 256};  ///< of each of the two
  Activation critic_activation = Activation::kRelu;

  OptimizerSpec policy_optimizer = {.rule = Adam{.learning_rate = 3e-4}};
  OptimizerSpec critic_optimizer = {.rule = Adam{.learning_rate = 1e-3}};
  std::int64_t policy_period = 1;  ///< steps of the critics to one of the policy and the temperature
  double target_rate = 0.005;      ///< tau, by which the critics' targets follow

  double temperature = 1;                   ///< alpha, at the beginning
  double temperature_learning_rate = 1e-3;  ///< of its logarithm, by Adam; 0: alpha stays as it is
  /// The entropy that alpha is learned for, an action dimension, of actions in [-1, 1] whatever their bounds are.
  double target_entropy = -1;
  bool normalise_observations = false;  ///< control/observation_norm.hpp
  /// Batches carry importance weights of prioritised replay, by which rows of the critics' loss are multiplied.
  bool importance_weights = false;
};

/// Errors: kInvalidArgument naming the option, got and expected.
Status validate(const Options& options);

}  // namespace troupe::learner::sac
