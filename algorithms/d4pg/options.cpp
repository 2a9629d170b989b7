#include <troupe/algorithms/d4pg/options.hpp>

#include <fmt/format.h>

#include <cmath>
#include <string_view>

namespace troupe::learner::d4pg {
namespace {

Error invalid(std::string_view option, double got, std::string_view expected) {
  return {Code::kInvalidArgument, fmt::format("d4pg: {} is {}, expected {}", option, got, expected)};
}

Status check_sizes(std::string_view option, const std::vector<std::int64_t>& sizes) {
  if (sizes.empty()) return invalid(option, 0, "at least one layer");
  for (const std::int64_t size : sizes) {
    if (size < 1) return invalid(option, static_cast<double>(size), "positive sizes");
  }
  return {};
}

}  // namespace

Status validate(const Options& options) {
  const EnvironmentShape& environment = options.environment;
  if (environment.observation_size < 1) {
    return invalid("observation_size", static_cast<double>(environment.observation_size), "at least 1");
  }
  if (environment.action_low.empty() || environment.action_low.size() != environment.action_high.size()) {
    return Error{Code::kInvalidArgument,
                 fmt::format("d4pg: action_low has {} entries and action_high {}, expected as many, at least 1",
                             environment.action_low.size(), environment.action_high.size())};
  }
  for (std::size_t i = 0; i < environment.action_low.size(); ++i) {
    const double low = environment.action_low[i], high = environment.action_high[i];
    if (!std::isfinite(low) || !std::isfinite(high) || low >= high) {
      return Error{Code::kInvalidArgument,
                   fmt::format("d4pg: bounds of action {} are [{}, {}], expected finite and rising", i, low, high)};
    }
  }
  TROUPE_TRY(check_sizes("policy_sizes", options.policy_sizes));
  TROUPE_TRY(check_sizes("critic_sizes", options.critic_sizes));
  if (options.support.count < 2) return invalid("atoms", static_cast<double>(options.support.count), "at least 2");
  if (!std::isfinite(options.support.low) || !std::isfinite(options.support.high) ||
      options.support.low >= options.support.high) {
    return invalid("v_min", options.support.low, fmt::format("finite and below v_max {}", options.support.high));
  }
  if (options.batch < 1) return invalid("batch", static_cast<double>(options.batch), "at least 1");
  TROUPE_TRY(learner::validate(options.policy_optimizer));
  TROUPE_TRY(learner::validate(options.critic_optimizer));
  if (options.target_period < 1) {
    return invalid("target_period", static_cast<double>(options.target_period), "at least 1");
  }
  if (!(options.dqda_max_norm >= 0)) return invalid("dqda_max_norm", options.dqda_max_norm, ">= 0");
  return {};
}

Signature batch_signature(const Options& options) {
  const Shape observation{options.environment.observation_size};
  Signature signature = {{"observation", DType::kF32, observation},
                         {"action", DType::kF32, Shape{options.environment.action_size()}},
                         {"reward", DType::kF32, Shape{}},
                         {"discount", DType::kF32, Shape{}},
                         {"next_observation", DType::kF32, observation}};
  if (options.importance_weights) signature.push_back({"weight", DType::kF32, Shape{}});
  return signature;
}

}  // namespace troupe::learner::d4pg
