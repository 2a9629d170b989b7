#include <troupe/algorithms/sngan/options.hpp>

#include <fmt/format.h>

#include <string_view>

#include <troupe/algorithms/sngan/resnet.hpp>

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
  if (options.network == Network::kResnet) {
    TROUPE_TRY(check(options.generator_width >= 1, "generator_width", static_cast<double>(options.generator_width),
                     "at least 1"));
    TROUPE_TRY(check(options.discriminator_width >= 1, "discriminator_width",
                     static_cast<double>(options.discriminator_width), "at least 1"));
    TROUPE_TRY(check(options.classes >= 0, "classes", static_cast<double>(options.classes), "at least 0"));
    if (const auto plan = resnet_plan(options); !plan.ok()) return plan.error();
  } else {
    TROUPE_TRY(check(options.classes == 0, "classes", static_cast<double>(options.classes), "0 for perceptrons"));
  }
  TROUPE_TRY(check(options.noise_size >= 1, "noise_size", static_cast<double>(options.noise_size), "at least 1"));
  TROUPE_TRY(check_sizes("generator_sizes", options.generator_sizes));
  TROUPE_TRY(check_sizes("discriminator_sizes", options.discriminator_sizes));
  TROUPE_TRY(check(options.n_dis >= 1, "n_dis", static_cast<double>(options.n_dis), "at least 1"));
  TROUPE_TRY(check(options.average_decay >= 0 && options.average_decay < 1, "average_decay", options.average_decay,
                   "at least 0 and below 1"));
  return learner::validate(options.optimizer);
}

OptimizerSpec generator_optimizer(const Options& options) { return every(options.optimizer, options.n_dis); }

Signature noise_signature(const Options& options) {
  Signature signature = {{"noise", DType::kF32, Shape{options.noise_size}}};
  if (options.classes > 0) signature.push_back({"label", DType::kI32, Shape{}});
  return signature;
}

Signature batch_signature(const Options& options) {
  Signature signature = noise_signature(options);
  signature.insert(signature.begin(), {"image", DType::kF32, options.image});
  return signature;
}

}  // namespace troupe::learner::sngan
