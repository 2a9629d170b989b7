#include <troupe/algorithms/sac/options.hpp>

#include <fmt/format.h>

#include <cmath>

namespace troupe::learner::sac {

Status validate(const Options& options) {
  TROUPE_TRY(control::validate(options.environment, "sac"));
  TROUPE_TRY(control::validate_layers(options.policy_sizes, "policy_sizes", "sac"));
  TROUPE_TRY(control::validate_layers(options.critic_sizes, "critic_sizes", "sac"));
  TROUPE_TRY(learner::validate(options.policy_optimizer));
  TROUPE_TRY(learner::validate(options.critic_optimizer));
  if (options.policy_period < 1) {
    return Error{Code::kInvalidArgument,
                 fmt::format("sac: policy_period is {}, expected at least 1", options.policy_period)};
  }
  if (!(options.target_rate > 0 && options.target_rate < 1)) {
    return Error{Code::kInvalidArgument,
                 fmt::format("sac: target_rate is {}, expected above 0 and below 1", options.target_rate)};
  }
  if (!(options.temperature > 0) || !(options.temperature_learning_rate >= 0)) {
    return Error{
        Code::kInvalidArgument,
        fmt::format("sac: temperature is {} and temperature_learning_rate {}, expected above 0, and at least 0",
                    options.temperature, options.temperature_learning_rate)};
  }
  if (!std::isfinite(options.target_entropy)) {
    return Error{Code::kInvalidArgument,
                 fmt::format("sac: target_entropy is {}, expected a finite number", options.target_entropy)};
  }
  return {};
}

}  // namespace troupe::learner::sac
