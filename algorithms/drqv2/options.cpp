#include <troupe/algorithms/drqv2/options.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace troupe::learner::drqv2 {
namespace {

Status check(bool fits, std::string_view option, double got, std::string_view expected) {
  if (fits) return {};
  return Error{Code::kInvalidArgument, fmt::format("drqv2: {} is {}, expected {}", option, got, expected)};
}

}  // namespace

Status validate(const Options& options) {
  TROUPE_TRY(control::validate(options.encoder, "drqv2"));
  TROUPE_TRY(control::validate(options.environment, "drqv2"));
  TROUPE_TRY(control::validate_layers(options.policy_sizes, "policy_sizes", "drqv2"));
  TROUPE_TRY(control::validate_layers(options.critic_sizes, "critic_sizes", "drqv2"));
  for (const OptimizerSpec* spec : {&options.encoder_optimizer, &options.policy_optimizer, &options.critic_optimizer}) {
    TROUPE_TRY(learner::validate(*spec));
  }
  const auto real = [](std::int64_t value) { return static_cast<double>(value); };
  TROUPE_TRY(check(options.target_rate > 0 && options.target_rate < 1, "target_rate", options.target_rate,
                   "above 0 and below 1"));
  TROUPE_TRY(check(options.sigma >= 0, "sigma", options.sigma, "at least 0"));
  TROUPE_TRY(check(options.final_sigma >= 0, "final_sigma", options.final_sigma, "at least 0"));
  TROUPE_TRY(check(options.sigma_env_steps >= 1, "sigma_env_steps", real(options.sigma_env_steps), "at least 1"));
  TROUPE_TRY(check(options.env_steps_per_learner_step > 0, "env_steps_per_learner_step",
                   options.env_steps_per_learner_step, "above 0"));
  return check(options.noise_clip > 0, "noise_clip", options.noise_clip, "above 0");
}

}  // namespace troupe::learner::drqv2
