#include <troupe/algorithms/resnet/options.hpp>

#include <fmt/format.h>

namespace troupe::learner::resnet {
namespace {

Status check(bool holds, std::string_view option, double got, std::string_view expected) {
  if (holds) return {};
  return Error{Code::kInvalidArgument, fmt::format("resnet: {} is {}, expected {}", option, got, expected)};
}

Status at_least_one(std::string_view option, std::int64_t got) {
  return check(got >= 1, option, static_cast<double>(got), "at least 1");
}

}  // namespace

Result<Options> of_depth(std::int64_t depth) {
  Options options;
  switch (depth) {
    case 18:
      options.block = Block::kBasic;
      options.blocks = {2, 2, 2, 2};
      return options;
    case 34:
      options.block = Block::kBasic;
      return options;
    case 50:
      return options;
    case 101:
      options.blocks = {3, 4, 23, 3};
      return options;
    case 152:
      options.blocks = {3, 8, 36, 3};
      return options;
    case 20:
    case 32:
    case 44:
    case 56:
    case 110:  // 6 n + 2 layers
      options.block = Block::kBasic;
      options.blocks.assign(3, (depth - 2) / 6);
      options.filters = 16;
      options.imagenet = false;
      options.height = options.width = 32;
      options.classes = 10;
      return options;
    default:
      return Error{
          Code::kInvalidArgument,
          fmt::format("resnet: depth is {}, expected 18, 34, 50, 101, 152 or, of CIFAR, 20, 32, 44, 56, 110", depth)};
  }
}

Status validate(const Options& options) {
  TROUPE_TRY(at_least_one("height", options.height));
  TROUPE_TRY(at_least_one("width", options.width));
  TROUPE_TRY(at_least_one("channels", options.channels));
  TROUPE_TRY(check(options.classes >= 2, "classes", static_cast<double>(options.classes), "at least 2"));
  TROUPE_TRY(check(!options.blocks.empty(), "blocks", 0, "at least one stage"));
  for (const std::int64_t count : options.blocks) TROUPE_TRY(at_least_one("blocks", count));
  TROUPE_TRY(at_least_one("filters", options.filters));
  TROUPE_TRY(check(options.batch_norm_momentum > 0 && options.batch_norm_momentum <= 1, "batch_norm_momentum",
                   options.batch_norm_momentum, "above 0 and at most 1"));
  TROUPE_TRY(check(options.label_smoothing >= 0 && options.label_smoothing < 1, "label_smoothing",
                   options.label_smoothing, "at least 0 and below 1"));
  TROUPE_TRY(check(options.average_decay >= 0 && options.average_decay < 1, "average_decay", options.average_decay,
                   "at least 0 and below 1"));
  return learner::validate(options.optimizer);
}

Signature batch_signature(const Options& options) {
  return {{"image", DType::kF32, Shape{options.height, options.width, options.channels}},
          {"label", DType::kI32, Shape{}}};
}

}  // namespace troupe::learner::resnet
