#include <troupe/algorithms/dmpo/options.hpp>

#include <fmt/format.h>

#include <cmath>
#include <string_view>

#include <troupe/algorithms/control/layer_norm_mlp.hpp>

namespace troupe::learner::dmpo {
namespace {

/// Whether `got`, of the option, is above `least`.
Status check_above(double least, std::string_view option, double got) {
  if (std::isfinite(got) && got > least) return {};
  return Error{Code::kInvalidArgument, fmt::format("dmpo: {} is {}, expected finite and above {}", option, got, least)};
}

}  // namespace

Status validate(const Options& options) {
  TROUPE_TRY(control::validate(options.environment, "dmpo"));
  TROUPE_TRY(control::validate_layers(options.policy_sizes, "policy_sizes", "dmpo"));
  TROUPE_TRY(control::validate_layers(options.critic_sizes, "critic_sizes", "dmpo"));
  TROUPE_TRY(control::validate_support(options.support, "dmpo"));
  TROUPE_TRY(learner::validate(options.policy_optimizer));
  TROUPE_TRY(learner::validate(options.critic_optimizer));
  const Limits& limits = options.limits;
  TROUPE_TRY(check_above(0, "samples", static_cast<double>(options.samples)));
  TROUPE_TRY(check_above(0, "limits.samples", limits.samples));
  TROUPE_TRY(check_above(0, "limits.penalty", limits.penalty));
  TROUPE_TRY(check_above(0, "limits.mean", limits.mean));
  TROUPE_TRY(check_above(0, "limits.stddev", limits.stddev));
  TROUPE_TRY(check_above(kLeastDual, "limits.temperature", limits.temperature));
  TROUPE_TRY(check_above(kLeastDual, "limits.alpha_mean", limits.alpha_mean));
  TROUPE_TRY(check_above(kLeastDual, "limits.alpha_stddev", limits.alpha_stddev));
  TROUPE_TRY(check_above(0, "dual_learning_rate", options.dual_learning_rate));
  TROUPE_TRY(check_above(0, "policy_target_period", static_cast<double>(options.policy_target_period)));
  return check_above(0, "critic_target_period", static_cast<double>(options.critic_target_period));
}

}  // namespace troupe::learner::dmpo
