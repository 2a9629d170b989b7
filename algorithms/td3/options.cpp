#include <troupe/algorithms/td3/options.hpp>

#include <fmt/format.h>

namespace troupe::learner::td3 {

Status validate(const Options& options) {
  TROUPE_TRY(control::validate(options.environment, "td3"));
  TROUPE_TRY(control::validate_layers(options.policy_sizes, "policy_sizes", "td3"));
  TROUPE_TRY(control::validate_layers(options.critic_sizes, "critic_sizes", "td3"));
  TROUPE_TRY(learner::validate(options.policy_optimizer));
  TROUPE_TRY(learner::validate(options.critic_optimizer));
  if (options.policy_period < 1) {
    return Error{Code::kInvalidArgument,
                 fmt::format("td3: policy_period is {}, expected at least 1", options.policy_period)};
  }
  if (!(options.target_rate > 0 && options.target_rate < 1)) {
    return Error{Code::kInvalidArgument,
                 fmt::format("td3: target_rate is {}, expected above 0 and below 1", options.target_rate)};
  }
  if (!(options.target_noise >= 0) || !(options.target_noise_clip > 0)) {
    return Error{Code::kInvalidArgument,
                 fmt::format("td3: target_noise is {} and target_noise_clip {}, expected at least 0, and above 0",
                             options.target_noise, options.target_noise_clip)};
  }
  return {};
}

}  // namespace troupe::learner::td3
