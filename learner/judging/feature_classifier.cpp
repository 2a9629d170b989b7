#include <troupe/learner/judging/feature_classifier.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <troupe/core/check.hpp>
#include <troupe/learner/graph/graph.hpp>
#include <troupe/learner/ops/linear.hpp>
#include <troupe/learner/ops/losses.hpp>
#include <troupe/learner/ops/reduce.hpp>

namespace troupe::learner {
namespace {

constexpr std::int64_t kHidden = 256;
constexpr std::int64_t kStepsEachSlice = 5;
constexpr double kLearningRate = 1e-3;
constexpr const char* kGroup = "features";

/// The same parameters whether it trains or looks.
Result<std::unique_ptr<Program>> compile(const FeatureClassifierOptions& options, std::int64_t pixels, bool trains) {
  Graph graph(kClassifierBatch);
  const ParamGroup group = graph.group(kGroup);
  const auto layer = [&](Var x, const char* name, std::int64_t in, std::int64_t out, Activation kind) {
    const double deviation = std::sqrt((kind == Activation::kRelu ? 2.0 : 1.0) / static_cast<double>(in));  // He 2015
    const Var weight = graph.param(group, fmt::format("{}/weight", name), Shape{in, out}, Init::normal(deviation));
    return linear(x, weight, graph.param(group, fmt::format("{}/bias", name), Shape{out}, {}), kind);
  };
  const Var hidden = layer(graph.input("image", Shape{pixels}), "hidden", pixels, kHidden, Activation::kRelu);
  const Var features = layer(hidden, "features", kHidden, kClassifierFeatures, Activation::kRelu);
  const Var logits = layer(features, "logits", kClassifierFeatures, options.classes, Activation::kNone);
  if (trains) {
    const Var loss = mean(label_cross_entropy(logits, graph.input("label", Shape{}, DType::kI32)));
    graph.minimize(loss, group,
                   {.rule = Adam{.learning_rate = kLearningRate},
                    .schedule = {.kind = Schedule::Kind::kCosine, .total_steps = options.steps}});
  } else {
    graph.output("features", features);
    graph.output("logits", logits);
  }
  return Program::compile(graph, {.seed = options.seed});
}

}  // namespace

Result<std::unique_ptr<FeatureClassifier>> FeatureClassifier::make(const FeatureClassifierOptions& options,
                                                                   const InputFn& train) {
  TROUPE_CHECK(options.image.rank() == 3, "feature classifier: image {}", options.image.to_string());
  auto self = std::unique_ptr<FeatureClassifier>(new FeatureClassifier(options));
  const std::int64_t height = options.image[0], width = options.image[1], channels = options.image[2];
  const std::int64_t side = std::max(height, width);
  self->factor_ = (side + kClassifierSide - 1) / kClassifierSide;
  if (height % self->factor_ != 0 || width % self->factor_ != 0) {
    return Error{Code::kShapeMismatch, fmt::format("feature classifier: images of {} x {}, expected multiples of {}",
                                                   height, width, self->factor_)};
  }
  self->pixels_ = height / self->factor_ * (width / self->factor_) * channels;
  self->columns_ = {{"image", DType::kF32, Shape{self->pixels_}}, {"label", DType::kI32, Shape{}}};
  TROUPE_ASSIGN(self->train_, train({.replica_batch = kClassifierBatch, .global_batch = kClassifierBatch}));
  for (const TensorSpec& expected : {TensorSpec{"image", DType::kF32, options.image}, self->columns_[1]}) {
    const Signature& got = self->train_->signature();
    const auto column = std::ranges::find(got, expected.name, &TensorSpec::name);
    if (column == got.end() || column->dtype != expected.dtype || column->bytes() != expected.bytes()) {
      return Error{Code::kShapeMismatch, fmt::format("feature classifier: got {}, expected {}",
                                                     column == got.end() ? "no " + expected.name : column->to_string(),
                                                     expected.to_string())};
    }
  }
  TROUPE_ASSIGN(self->training_, compile(options, self->pixels_, true));
  TROUPE_ASSIGN(self->looking_, compile(options, self->pixels_, false));
  return self;
}

Result<bool> FeatureClassifier::train_some() {
  for (int i = 0; i < kStepsEachSlice && training_ != nullptr; ++i) {
    TROUPE_ASSIGN(const BatchView batch, train_->next());
    const auto column = [&](const char* name) { return static_cast<std::size_t>(batch.find(name)); };
    BatchView bound{&columns_, batch.rows, {}};
    bound.columns = {std::as_bytes(shrunk(batch.as<float>(column("image")))), batch.columns[column("label")]};
    TROUPE_TRY(training_->bind(bound));
    TROUPE_TRY(training_->run());
    if (training_->step() + training_->skipped() < options_.steps) continue;
    std::ranges::copy(training_->params(kGroup)->values(), looking_->params(kGroup)->values().begin());
    looking_->parameters_changed();
    training_.reset();
    train_.reset();
  }
  return training_ == nullptr;
}

Status FeatureClassifier::look(std::span<const float> images) {
  const Signature image = {columns_[0]};
  const std::span<const float> pixels = shrunk(images);
  TROUPE_TRY(looking_->bind({&image, static_cast<std::int64_t>(pixels.size()) / pixels_, {std::as_bytes(pixels)}}));
  return looking_->run();
}

std::span<const float> FeatureClassifier::shrunk(std::span<const float> images) {
  if (factor_ == 1) return images;
  const std::int64_t width = options_.image[1], channels = options_.image[2];
  const std::int64_t rows = static_cast<std::int64_t>(images.size()) / (width * channels);  // of pixels, of all images
  shrunk_.assign(images.size() / static_cast<std::size_t>(factor_ * factor_), 0);
  const float weight = 1 / static_cast<float>(factor_ * factor_);
  std::size_t from = 0;
  for (std::int64_t y = 0; y < rows; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      const std::int64_t to = (y / factor_ * (width / factor_) + x / factor_) * channels;
      for (std::int64_t c = 0; c < channels; ++c) shrunk_[static_cast<std::size_t>(to + c)] += weight * images[from++];
    }
  }
  return shrunk_;
}

}  // namespace troupe::learner
