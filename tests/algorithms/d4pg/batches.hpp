#pragma once
// Batches for the tests of D4PG: a store of random transitions of a one-dimensional task whose best policy is known.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include <troupe/algorithms/d4pg/options.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/core/tensor.hpp>

namespace troupe::learner::d4pg {

/// Bring the state to zero: s' = clip(s + a / 2, -1, 1) pays 1 - s^2 whatever the action, so that an action is worth
/// only what it leads to. The best action is clip(-2 s, -1, 1), and values lie in [0, 10] for gamma 0.9.
inline Options steering_options() {
  Options options;
  options.environment = {.observation_size = 1, .action_low = {-1}, .action_high = {1}};
  options.policy_sizes = {32, 32};
  options.critic_sizes = {64, 64};
  options.support = {0, 10, 41};
  options.batch = 64;
  for (OptimizerSpec* const optimizer : {&options.policy_optimizer, &options.critic_optimizer}) {
    std::get<Adam>(optimizer->rule).learning_rate = 1e-3;
  }
  options.target_period = 20;
  return options;
}

inline double steer(double state, double action) { return std::clamp(state + action / 2, -1.0, 1.0); }
inline double best_steering(double state) { return std::clamp(-2 * state, -1.0, 1.0); }

/// Fills a batch of batch_signature(steering_options()) with uniformly drawn states and actions.
inline void fill_steering(Rng& rng, BatchBuffer& buffer) {
  const MutableBatchView& batch = buffer.mutable_view();
  for (std::size_t row = 0; row < static_cast<std::size_t>(batch.rows); ++row) {
    const double state = 2 * rng.uniform() - 1, action = 2 * rng.uniform() - 1;
    const std::array<double, 5> values = {state, action, 1 - state * state, 0.9, steer(state, action)};
    for (std::size_t column = 0; column < values.size(); ++column) {
      batch.as<float>(column)[row] = static_cast<float>(values[column]);
    }
  }
}

/// Fills any float32 batch with numbers that make sense: rewards and observations normal, the rest in [0, 1).
inline void fill_random(Rng& rng, BatchBuffer& buffer) {
  const MutableBatchView& batch = buffer.mutable_view();
  for (std::size_t column = 0; column < batch.columns.size(); ++column) {
    const std::string& name = (*batch.signature)[column].name;
    const bool normal = name == "reward" || name.find("observation") != std::string::npos;
    for (float& x : batch.as<float>(column)) x = static_cast<float>(normal ? rng.normal() : rng.uniform());
  }
}

}  // namespace troupe::learner::d4pg
