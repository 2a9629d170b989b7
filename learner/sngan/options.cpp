#include <troupe/learner/sngan/options.hpp>

#include <fmt/format.h>

#include <string_view>

namespace troupe::learner::sngan {
namespace {

Status check(bool holds, std::string_view option, double got, std::string_view expected) {
  if (holds) return {};
  return Error{Code::kInvalidArgument, fmt::format("sngan: {} is {}, expected {}", option, got, expected)};
}

Status check_sizes(std::string_view option, const std::vector<std::int64_t>& sizes) {
  for (const std::int64_t size : sizes)
    TROUPE_TRY(check(size >= 1, option, static_cast<double>(size), "positive sizes"));
  return {};
}

}  // namespace

Status validate(const Options& options) {
  if (options.image.rank() != 3 || options.image.elements() < 1) {
    return Error{Code::kInvalidArgument,
                 fmt::format("sngan: image is {}, expected [height, width, channels]", options.image.to_string())};
  }
  TROUPE_TRY(check(options.noise_size >= 1, "noise_size", static_cast<double>(options.noise_size), "at least 1"));
  TROUPE_TRY(check_sizes("generator_sizes", options.generator_sizes));
  TROUPE_TRY(check_sizes("discriminator_sizes", options.discriminator_sizes));
  TROUPE_TRY(check(options.n_dis >= 1, "n_dis", static_cast<double>(options.n_dis), "at least 1"));
  TROUPE_TRY(check(options.average_decay >= 0 && options.average_decay < 1, "average_decay", options.average_decay,
                   "at least 0 and below 1"));
  return learner::validate({.rule = options.optimizer, .schedule = options.schedule});
}

Signature batch_signature(const Options& options) {
  return {{"image", DType::kF32, options.image}, {"noise", DType::kF32, Shape{options.noise_size}}};
}

}  // namespace troupe::learner::sngan
