#pragma once
// What the D4PG rows on a GPU share: their sizes, and what a step costs at least.
#include <vector>

#include <troupe/algorithms/d4pg/options.hpp>
#include <troupe/bench/gpu/device.hpp>
#include <troupe/bench/gpu/limits.hpp>

namespace troupe::learner {

/// The sizes of bench/learner/gpu_sizes.py.
inline d4pg::Options gpu_bench_options(std::int64_t observation_size) {
  d4pg::Options options;
  const auto actions = bench::tiny<std::size_t>(6, 2);
  options.environment = {.observation_size = observation_size,
                         .action_low = std::vector<double>(actions, -1),
                         .action_high = std::vector<double>(actions, 1)};
  options.policy_sizes = bench::tiny<std::vector<std::int64_t>>({256, 256, 256}, {16, 16});
  options.critic_sizes = bench::tiny<std::vector<std::int64_t>>({512, 512, 256}, {16, 16});
  options.batch = bench::tiny<std::int64_t>(256, 8);
  return options;
}

/// Products of one network: weights of all layers, and of the first one alone.
struct LayerSizes {
  double all = 0, first = 0, count = 0;
  LayerSizes(double in, const std::vector<std::int64_t>& hidden, double out) {
    for (const std::int64_t size : hidden) add(in, static_cast<double>(size)), in = static_cast<double>(size);
    add(in, out);
  }

 private:
  void add(double in, double out) {
    if (count == 0) first = in * out;
    all += in * out;
    ++count;
  }
};

/// The step of d4pg::build_losses() behind what sees: three passes forward through critics, two through policies, the
/// gradient of the critic's loss, dQ/da, and the policy's gradient. Of parameters: online values and both of Adam's
/// moments read and written, targets read, gradients written and read. The longest chain: policy, critic, back through
/// both, the norm, the update.
inline bench::StepCost step_cost(const d4pg::Options& options) {
  const auto observation = static_cast<double>(options.environment.observation_size);
  const auto actions = static_cast<double>(options.environment.action_size());
  const LayerSizes policy(observation, options.policy_sizes, actions);
  const LayerSizes critic(observation + actions, options.critic_sizes, static_cast<double>(options.support.count));
  const auto first_hidden = static_cast<double>(options.critic_sizes.front());
  const double products = 3 * critic.all + 2 * policy.all                         // forward
                          + critic.all + (critic.all - critic.first)              // the critic's gradient
                          + (critic.all - critic.first) + actions * first_hidden  // dQ/da
                          + policy.all + (policy.all - policy.first);             // the policy's gradient
  return {.nodes = 2 * (policy.count + critic.count) + 2,
          .bytes = 9 * sizeof(float) * (policy.all + critic.all),
          .flops = 2 * static_cast<double>(options.batch) * products};
}

}  // namespace troupe::learner
