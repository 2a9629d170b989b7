#pragma once
// Settings of FlashSAC (Holiday Robotics 2026; github.com/Holiday-Robot/FlashSAC). Defaults are those of its runs on
// one environment (Control Suite, Gymnasium).
#include <cstdint>

#include <troupe/algorithms/control/environment_shape.hpp>
#include <troupe/core/error.hpp>
#include <troupe/learner/graph/optimizer.hpp>
#include <troupe/learner/ops/categorical.hpp>

namespace troupe::learner::flashsac {

/// Of a residual network: each block widens what flows through it to four times `width` and back.
struct NetworkSize {
  std::int64_t blocks = 2;
  std::int64_t width = 128;
};

struct Options {
  control::EnvironmentShape environment;

  NetworkSize policy = {.blocks = 2, .width = 128};
  NetworkSize critic = {.blocks = 2, .width = 256};  ///< of each of the two
  Support support = {-5, 5, 101};
  double norm_momentum = 0.01;  ///< of batch norm: the share of a batch in the running statistics

  OptimizerSpec policy_optimizer = {.rule = Adam{.learning_rate = 3e-4}};
  OptimizerSpec critic_optimizer = {.rule = Adam{.learning_rate = 3e-4}};
  OptimizerSpec temperature_optimizer = {.rule = Adam{.learning_rate = 3e-4}};
  std::int64_t policy_period = 2;  ///< steps of the critics to one of the policy and the temperature
  double target_rate = 0.01;       ///< tau, by which the parameters of the critics' targets follow

  double temperature = 0.01;  ///< alpha, at the beginning
  /// The temperature is learned for the entropy of a Gaussian with this deviation, of actions in [-1, 1] before tanh.
  double target_stddev = 0.15;
  /// Batches have a column "return", by whose moments rewards are scaled to the support (control/reward_scale.hpp).
  bool scale_rewards = true;
  /// Batches carry importance weights of prioritised replay, by which rows of the critics' loss are multiplied.
  bool importance_weights = false;
};

/// Errors: kInvalidArgument naming the option, got and expected.
Status validate(const Options& options);

/// Columns of a batch: control::transitions() and with scale_rewards "return" behind an item's.
Signature columns(const Options& options);

}  // namespace troupe::learner::flashsac
