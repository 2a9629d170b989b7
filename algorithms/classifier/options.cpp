#include <troupe/algorithms/classifier/options.hpp>

#include <fmt/format.h>

#include <string_view>

namespace troupe::learner::classifier {
namespace {

Status check(bool holds, std::string_view option, double got, std::string_view expected) {
  if (holds) return {};
  return Error{Code::kInvalidArgument, fmt::format("classifier: {} is {}, expected {}", option, got, expected)};
}

}  // namespace

Status validate(const Options& options) {
  TROUPE_TRY(check(options.features >= 1, "features", static_cast<double>(options.features), "at least 1"));
  TROUPE_TRY(check(options.classes >= 2, "classes", static_cast<double>(options.classes), "at least 2"));
  for (const std::int64_t size : options.sizes) {
    TROUPE_TRY(check(size >= 1, "sizes", static_cast<double>(size), "positive sizes"));
  }
  TROUPE_TRY(check(options.label_smoothing >= 0 && options.label_smoothing < 1, "label_smoothing",
                   options.label_smoothing, "at least 0 and below 1"));
  TROUPE_TRY(check(options.average_decay >= 0 && options.average_decay < 1, "average_decay", options.average_decay,
                   "at least 0 and below 1"));
  TROUPE_TRY(
      check(options.pipeline_parts >= 1, "pipeline_parts", static_cast<double>(options.pipeline_parts), "at least 1"));
  TROUPE_TRY(check(options.pipeline_parts == 1 || options.layer_split == Split::kNone, "pipeline_parts",
                   static_cast<double>(options.pipeline_parts), "1, since no layer is a stage of its own"));
  return learner::validate(options.optimizer);
}

Signature batch_signature(const Options& options) {
  return {{"image", DType::kF32, Shape{options.features}}, {"label", DType::kI32, Shape{}}};
}

}  // namespace troupe::learner::classifier
