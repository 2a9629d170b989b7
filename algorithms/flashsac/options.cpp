#include <troupe/algorithms/flashsac/options.hpp>

#include <fmt/format.h>

#include <cmath>

#include <troupe/algorithms/control/layer_norm_mlp.hpp>

namespace troupe::learner::flashsac {
namespace {

Status validate(const NetworkSize& size, std::string_view network) {
  if (size.blocks >= 1 && size.width >= 1) return {};
  return Error{Code::kInvalidArgument,
               fmt::format("flashsac: {0}_blocks is {1} and {0}_width {2}, expected at least 1 each", network,
                           size.blocks, size.width)};
}

}  // namespace

Status validate(const Options& options) {
  TROUPE_TRY(control::validate(options.environment, "flashsac"));
  TROUPE_TRY(validate(options.policy, "policy"));
  TROUPE_TRY(validate(options.critic, "critic"));
  TROUPE_TRY(control::validate_support(options.support, "flashsac"));
  for (const OptimizerSpec* const optimizer :
       {&options.policy_optimizer, &options.critic_optimizer, &options.temperature_optimizer}) {
    TROUPE_TRY(learner::validate(*optimizer));
  }
  if (options.policy_period < 1) {
    return Error{Code::kInvalidArgument,
                 fmt::format("flashsac: policy_period is {}, expected at least 1", options.policy_period)};
  }
  if (!(options.target_rate > 0 && options.target_rate < 1) ||
      !(options.norm_momentum > 0 && options.norm_momentum < 1)) {
    return Error{Code::kInvalidArgument,
                 fmt::format("flashsac: target_rate is {} and norm_momentum {}, expected above 0 and below 1",
                             options.target_rate, options.norm_momentum)};
  }
  if (!(options.temperature > 0) || !(options.target_stddev > 0) || !std::isfinite(options.target_stddev)) {
    return Error{Code::kInvalidArgument,
                 fmt::format("flashsac: temperature is {} and target_stddev {}, expected above 0", options.temperature,
                             options.target_stddev)};
  }
  if (options.scale_rewards && !(options.support.high > 0)) {
    return Error{Code::kInvalidArgument,
                 fmt::format("flashsac: v_max is {}, expected above 0 with scale_rewards", options.support.high)};
  }
  return {};
}

Signature columns(const Options& options) {
  Signature all = control::transitions(options.environment, false);
  if (options.scale_rewards) all.push_back({"return", DType::kF32, Shape{}});
  if (options.importance_weights) all.push_back({"weight", DType::kF32, Shape{}});
  return all;
}

}  // namespace troupe::learner::flashsac
