#include <troupe/algorithms/d4pg/options.hpp>

#include <fmt/format.h>

#include <string_view>

#include <troupe/algorithms/control/layer_norm_mlp.hpp>

namespace troupe::learner::d4pg {
namespace {

Error invalid(std::string_view option, double got, std::string_view expected) {
  return {Code::kInvalidArgument, fmt::format("d4pg: {} is {}, expected {}", option, got, expected)};
}

}  // namespace

Status validate(const Options& options) {
  TROUPE_TRY(control::validate(options.environment, "d4pg"));
  TROUPE_TRY(control::validate_layers(options.policy_sizes, "policy_sizes", "d4pg"));
  TROUPE_TRY(control::validate_layers(options.critic_sizes, "critic_sizes", "d4pg"));
  TROUPE_TRY(control::validate_support(options.support, "d4pg"));
  if (options.from_images()) {
    TROUPE_TRY(control::validate(options.encoder, "d4pg"));
    TROUPE_TRY(learner::validate(options.encoder_optimizer));
    if (options.normalise_observations) {
      return Error{Code::kInvalidArgument,
                   fmt::format("d4pg: normalise_observations is true with images of {}, expected false: bytes are "
                               "scaled by themselves",
                               options.encoder.pixels.to_string())};
    }
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
  return options.from_images()
             ? control::image_transitions(options.environment, options.encoder, options.importance_weights)
             : control::transitions(options.environment, options.importance_weights);
}

}  // namespace troupe::learner::d4pg
