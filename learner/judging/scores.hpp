#pragma once
// Two scores of generated images, from what a classifier sees in them. Both are sums over images, so images come batch
// by batch and none is kept. Everything in float64.
#include <cstdint>
#include <span>
#include <vector>

namespace troupe::learner {

/// Mean and covariance of feature vectors.
class FeatureStatistics {
 public:
  explicit FeatureStatistics(std::int64_t size);

  /// rows: [any, size].
  void add(std::span<const float> rows);
  std::int64_t count() const { return count_; }
  std::int64_t size() const { return size_; }
  std::vector<double> mean() const;
  /// [size, size], divided by count - 1; count() must be at least 2.
  std::vector<double> covariance() const;

 private:
  std::int64_t size_, count_ = 0;
  std::vector<double> sum_, products_;  ///< of x and, upper half, of x x^T
};

/// |m - m'|^2 + tr(C + C' - 2 (C C')^(1/2)): the squared Frechet distance of the two normal distributions (Heusel et
/// al. 2017, Eq. 6). The trace of the root is that of (C^(1/2) C' C^(1/2))^(1/2), which needs symmetric
/// eigenvalues only and is right for singular covariances too. Same size() and at least 2 rows each. O(size^3).
double frechet_distance(const FeatureStatistics& a, const FeatureStatistics& b);

/// exp of the mean divergence of an image's classes from those of all images (Salimans et al. 2016, section 4): 1 when
/// all look alike, the number of classes when each is surely one and all come equally often. Over all images at once,
/// not the mean over ten parts of the original, which is lower for a small number of images.
class InceptionScore {
 public:
  explicit InceptionScore(std::int64_t classes);

  /// logits: [any, classes].
  void add(std::span<const float> logits);
  double value() const;

 private:
  std::vector<double> probability_, row_;  ///< summed over images; of one
  double negative_entropy_ = 0;            ///< summed over images
  std::int64_t count_ = 0;
};

}  // namespace troupe::learner
