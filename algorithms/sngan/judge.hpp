#pragma once
// Judges an SN-GAN's images: how far they are from real ones, how many kinds there are, and what they look like.
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <troupe/learner/judging/feature_classifier.hpp>
#include <troupe/learner/judging/judge.hpp>
#include <troupe/learner/judging/scores.hpp>

namespace troupe::learner::sngan {

struct JudgeOptions {
  FeatureClassifierOptions classifier;
  std::int64_t images = 10'000;    ///< real ones that generated ones are compared with: those of the test input's start
  std::int64_t grid_rows = 8;      ///< of the picture, filled row by row with the first images
  std::int64_t grid_columns = 10;  ///< a column a class, where labels go round (evaluation())
};

/// Scalars, by the FeatureClassifier: frechet_distance (scores.hpp) between test images and generated ones,
/// inception_score of the generated ones; judge_real_images and judge_generated_images, how many those are;
/// judge_accuracy, the classifier's on the same test images. Both scores depend on the number of images and on the
/// classifier, so compare only what has the same data, numbers and seed. Picture: "samples".
class SnganJudge final : public Judge {
 public:
  /// Inputs with columns "image" and "label"; test gives its rows in order, and at least options.images of them.
  SnganJudge(JudgeOptions options, InputFn train, InputFn test);

  /// Trains the classifier, then looks at the real images.
  Result<bool> prepare() override;
  /// The program's output is kImages (evaluation()).
  Status take(const Program& program, std::int64_t rows) override;
  Result<Verdict> verdict() override;

 private:
  Status look_at_real();
  Picture grid() const;

  JudgeOptions options_;
  InputFn train_, test_;
  std::unique_ptr<FeatureClassifier> classifier_;
  std::unique_ptr<InputPipeline> real_;
  FeatureStatistics real_features_, features_;
  InceptionScore score_;
  std::int64_t correct_ = 0;
  std::vector<float> first_;  ///< images, for the grid
};

/// Images in [-1, 1] side by side, `columns` of them in a row, with a dark pixel around each. images: [rows * columns,
/// image]; a last row that is not full stays dark.
Picture picture_grid(std::span<const float> images, const Shape& image, std::int64_t columns);

}  // namespace troupe::learner::sngan
