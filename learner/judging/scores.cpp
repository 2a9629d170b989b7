#include <troupe/learner/judging/scores.hpp>

#include <Eigen/Dense>

#include <algorithm>
#include <cmath>

#include <troupe/core/check.hpp>

namespace troupe::learner {
namespace {

using Matrix = Eigen::MatrixXd;
using Eigen::Map;

Map<const Matrix> matrix(const std::vector<double>& values, std::int64_t size) { return {values.data(), size, size}; }

/// Rounding leaves eigenvalues of a singular covariance a little below 0.
Eigen::VectorXd roots(const Eigen::VectorXd& eigenvalues) { return eigenvalues.cwiseMax(0).cwiseSqrt(); }

}  // namespace

FeatureStatistics::FeatureStatistics(std::int64_t size)
    : size_(size), sum_(static_cast<std::size_t>(size)), products_(static_cast<std::size_t>(size * size)) {}

void FeatureStatistics::add(std::span<const float> rows) {
  const auto count = static_cast<std::int64_t>(rows.size()) / size_;
  TROUPE_CHECK(count * size_ == static_cast<std::int64_t>(rows.size()), "feature statistics: {} values, rows of {}",
               rows.size(), size_);
  const Matrix x = Map<const Eigen::MatrixXf>(rows.data(), size_, count).cast<double>();
  Map<Eigen::VectorXd>(sum_.data(), size_) += x.rowwise().sum();
  Map<Matrix>(products_.data(), size_, size_).selfadjointView<Eigen::Upper>().rankUpdate(x);
  count_ += count;
}

std::vector<double> FeatureStatistics::mean() const {
  std::vector<double> mean = sum_;
  for (double& value : mean) value /= static_cast<double>(count_);
  return mean;
}

std::vector<double> FeatureStatistics::covariance() const {
  TROUPE_CHECK(count_ >= 2, "feature statistics: {} rows", count_);
  const std::vector<double> mean = this->mean();
  const Map<const Eigen::VectorXd> m(mean.data(), size_);
  std::vector<double> covariance(products_.size());
  Map<Matrix> out(covariance.data(), size_, size_);
  out = matrix(products_, size_).selfadjointView<Eigen::Upper>();
  out = (out - static_cast<double>(count_) * m * m.transpose()) / static_cast<double>(count_ - 1);
  return covariance;
}

double frechet_distance(const FeatureStatistics& a, const FeatureStatistics& b) {
  TROUPE_CHECK(a.size() == b.size(), "frechet distance: {} and {} features", a.size(), b.size());
  const std::int64_t size = a.size();
  const std::vector<double> mean_a = a.mean(), mean_b = b.mean();
  const std::vector<double> covariance_a = a.covariance(), covariance_b = b.covariance();
  const auto ca = matrix(covariance_a, size), cb = matrix(covariance_b, size);
  const Eigen::SelfAdjointEigenSolver<Matrix> of_a(ca);
  const Matrix root = of_a.eigenvectors() * roots(of_a.eigenvalues()).asDiagonal() * of_a.eigenvectors().transpose();
  const Eigen::SelfAdjointEigenSolver<Matrix> of_product(root * cb * root, Eigen::EigenvaluesOnly);
  const double means = (Map<const Eigen::VectorXd>(mean_a.data(), size) -  //
                        Map<const Eigen::VectorXd>(mean_b.data(), size))
                           .squaredNorm();
  return means + ca.trace() + cb.trace() - 2 * roots(of_product.eigenvalues()).sum();
}

InceptionScore::InceptionScore(std::int64_t classes)
    : probability_(static_cast<std::size_t>(classes)), row_(static_cast<std::size_t>(classes)) {}

void InceptionScore::add(std::span<const float> logits) {
  const std::size_t classes = row_.size();
  TROUPE_CHECK(logits.size() % classes == 0, "inception score: {} logits of {} classes", logits.size(), classes);
  for (; !logits.empty(); logits = logits.subspan(classes), ++count_) {
    const double largest = *std::max_element(logits.begin(), logits.begin() + static_cast<std::ptrdiff_t>(classes));
    double sum = 0;
    for (std::size_t c = 0; c < classes; ++c) sum += row_[c] = std::exp(logits[c] - largest);
    for (std::size_t c = 0; c < classes; ++c) {
      const double p = row_[c] / sum;
      probability_[c] += p;
      if (p > 0) negative_entropy_ += p * (logits[c] - largest - std::log(sum));
    }
  }
}

double InceptionScore::value() const {
  const auto count = static_cast<double>(count_);
  double divergence = negative_entropy_ / count;
  for (const double sum : probability_) {
    if (sum > 0) divergence -= sum / count * std::log(sum / count);
  }
  return std::exp(divergence);
}

}  // namespace troupe::learner
