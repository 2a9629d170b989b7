#include <troupe/algorithms/sngan/judge.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

#include <troupe/algorithms/sngan/replica.hpp>
#include <troupe/core/log.hpp>

namespace troupe::learner::sngan {

SnganJudge::SnganJudge(JudgeOptions options, InputFn train, InputFn test)
    : options_(std::move(options)),
      train_(std::move(train)),
      test_(std::move(test)),
      real_features_(kClassifierFeatures),
      features_(kClassifierFeatures),
      score_(options_.classifier.classes) {}

Result<bool> SnganJudge::prepare() {
  if (classifier_ == nullptr) {
    TROUPE_ASSIGN(classifier_, FeatureClassifier::make(options_.classifier, train_));
    TROUPE_ASSIGN(real_, test_({.replica_batch = kClassifierBatch, .global_batch = kClassifierBatch}));
    return false;
  }
  TROUPE_ASSIGN(const bool trained, classifier_->train_some());
  if (!trained) return false;
  if (real_ != nullptr) TROUPE_TRY(look_at_real());
  return real_ == nullptr;
}

Status SnganJudge::look_at_real() {
  TROUPE_ASSIGN(const BatchView batch, real_->next());
  const std::int64_t rows = std::min(batch.rows, options_.images - real_features_.count());
  const auto column = [&](const char* name) { return static_cast<std::size_t>(batch.find(name)); };
  const auto images = batch.as<float>(column("image"));
  const auto labels = batch.as<std::int32_t>(column("label"));
  TROUPE_TRY(classifier_->look(images.first(static_cast<std::size_t>(rows * options_.classifier.image.elements()))));
  real_features_.add(classifier_->features());
  const std::span<const float> logits = classifier_->logits();
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto of_row = logits.subspan(static_cast<std::size_t>(row * options_.classifier.classes),
                                       static_cast<std::size_t>(options_.classifier.classes));
    correct_ += std::ranges::max_element(of_row) - of_row.begin() == labels[static_cast<std::size_t>(row)];
  }
  if (real_features_.count() == options_.images) real_.reset();
  return {};
}

Status SnganJudge::take(const Program& program, std::int64_t rows) {
  const auto each = static_cast<std::size_t>(options_.classifier.image.elements());
  std::span<const float> images = program.output(kImages).first(static_cast<std::size_t>(rows) * each);
  const auto wanted = static_cast<std::size_t>(options_.grid_rows * options_.grid_columns) * each;
  if (first_.size() < wanted) {
    const auto more = images.first(std::min(images.size(), wanted - first_.size()));
    first_.insert(first_.end(), more.begin(), more.end());
  }
  while (!images.empty()) {
    const std::size_t some = std::min(images.size(), static_cast<std::size_t>(kClassifierBatch) * each);
    TROUPE_TRY(classifier_->look(images.first(some)));
    features_.add(classifier_->features());
    score_.add(classifier_->logits());
    images = images.subspan(some);
  }
  return {};
}

Result<Verdict> SnganJudge::verdict() {
  Verdict verdict;
  verdict.scalars = {
      {"frechet_distance", frechet_distance(real_features_, features_)},
      {"inception_score", score_.value()},
      {"judge_accuracy", static_cast<double>(correct_) / static_cast<double>(real_features_.count())},
      {"judge_generated_images", static_cast<double>(features_.count())},
      {"judge_real_images", static_cast<double>(real_features_.count())},
  };
  verdict.pictures.push_back(picture_grid(first_, options_.classifier.image, options_.grid_columns));
  verdict.pictures.back().name = "samples";
  features_ = FeatureStatistics(kClassifierFeatures);
  score_ = InceptionScore(options_.classifier.classes);
  first_.clear();
  return verdict;
}

Picture picture_grid(std::span<const float> images, const Shape& image, std::int64_t columns) {
  constexpr std::int64_t kGap = 1;
  const std::int64_t height = image[0], width = image[1], channels = image[2];
  const std::int64_t count = static_cast<std::int64_t>(images.size()) / image.elements();
  Picture picture;
  picture.height = kGap + (count + columns - 1) / columns * (height + kGap);
  picture.width = kGap + columns * (width + kGap);
  picture.channels = channels;
  picture.pixels.resize(static_cast<std::size_t>(picture.height * picture.width * channels));
  const float* from = images.data();
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t top = kGap + i / columns * (height + kGap), left = kGap + i % columns * (width + kGap);
    for (std::int64_t y = 0; y < height; ++y) {
      auto to = picture.pixels.begin() + ((top + y) * picture.width + left) * channels;
      for (std::int64_t x = 0; x < width * channels; ++x) {
        *to++ = static_cast<std::uint8_t>(std::lround(std::max(0.0F, std::min(255.0F, (*from++ + 1) * 127.5F))));
      }
    }
  }
  return picture;
}

}  // namespace troupe::learner::sngan
