// Scores whose values are known, and against PyTorch (make_judging_golden.py).
#include <troupe/learner/judging/scores.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include <troupe/core/rng.hpp>
#include <troupe/tests/learner/golden.hpp>

namespace troupe::learner {
namespace {

FeatureStatistics statistics_of(std::int64_t size, const std::vector<float>& rows) {
  FeatureStatistics statistics(size);
  statistics.add(rows);
  return statistics;
}

TEST(FeatureStatistics, AreMeanAndCovarianceWhateverTheBatches) {
  const std::vector<float> rows = {1, 2, 3, 6, 5, 4};
  const FeatureStatistics whole = statistics_of(2, rows);
  EXPECT_EQ(whole.count(), 3);
  EXPECT_EQ(whole.mean(), (std::vector<double>{3, 4}));
  EXPECT_EQ(whole.covariance(), (std::vector<double>{4, 2, 2, 4}));  // of -2 0 2 and -2 2 0, by 3 - 1
  FeatureStatistics parts(2);
  parts.add(std::span(rows).first(2));
  parts.add(std::span(rows).subspan(2));
  EXPECT_EQ(parts.covariance(), whole.covariance());
}

TEST(FrechetDistance, OfNormalDistributionsIsTheFormula) {
  // Rows whose covariance is exactly diagonal: for each axis two at mean +- d, so a variance of 2 d^2 / (n - 1).
  const auto axes = [](std::array<float, 3> mean, std::array<float, 3> deviation) {
    std::vector<float> rows;
    for (std::size_t axis = 0; axis < 3; ++axis) {
      for (const float sign : {1.0F, -1.0F}) {
        for (std::size_t i = 0; i < 3; ++i) rows.push_back(mean[i] + (i == axis ? sign * deviation[i] : 0));
      }
    }
    return statistics_of(3, rows);
  };
  const FeatureStatistics a = axes({0, 0, 0}, {1, 2, 3}), b = axes({1, -2, 0}, {2, 2, 0});
  EXPECT_NEAR(frechet_distance(a, a), 0, 1e-12);
  // |mean|^2 = 5; the deviations differ by 1, 0 and 3, times sqrt(2 / 5).
  EXPECT_NEAR(frechet_distance(a, b), 5 + 0.4 * (1 + 9), 1e-12);
  EXPECT_NEAR(frechet_distance(b, a), frechet_distance(a, b), 1e-12);
}

TEST(FrechetDistance, OfTwoSamplesOfOneDistributionFallsWithTheirNumber) {
  Rng rng(4);
  const auto sample = [&](std::size_t rows) {
    std::vector<float> values(rows * 8);
    for (float& x : values) x = static_cast<float>(rng.normal());
    return statistics_of(8, values);
  };
  const FeatureStatistics few = sample(50), few_too = sample(50), many = sample(5000), many_too = sample(5000);
  const double of_many = frechet_distance(many, many_too);
  EXPECT_GT(of_many, 0);
  EXPECT_LT(of_many, 0.05);  // some 2 * 8 / 5000 from the means, and as much from the covariances
  EXPECT_GT(frechet_distance(few, few_too), 10 * of_many);
}

TEST(FrechetDistance, IsPyTorchs) {
  const Golden golden("judging.safetensors");
  const FeatureStatistics a = statistics_of(12, golden.values<float>("a")),
                          b = statistics_of(12, golden.values<float>("b"));
  const double expected = golden.values<double>("frechet_distance")[0];
  // Eigenvalues of a singular matrix that should be 0 are known to 1e-15 of the largest; their roots to 1e-7.
  EXPECT_NEAR(frechet_distance(a, b), expected, 1e-6 * expected);
}

TEST(InceptionScore, IsPyTorchs) {
  const Golden golden("judging.safetensors");
  InceptionScore score(5);
  const std::vector<float> logits = golden.values<float>("logits");
  score.add(std::span(logits).first(15));
  score.add(std::span(logits).subspan(15));
  EXPECT_NEAR(score.value(), golden.values<double>("inception_score")[0], 1e-12);
}

TEST(InceptionScore, CountsTheKindsThatAreToldApart) {
  InceptionScore alike(4), all(4), half(4);
  for (int i = 0; i < 40; ++i) {
    std::array<float, 4> sure{}, one{};
    sure[static_cast<std::size_t>(i % 4)] = 1000;  // exp(-1000) is 0
    one[static_cast<std::size_t>(i % 2)] = 1000;
    alike.add(std::array<float, 4>{1, 2, 3, 4});
    all.add(sure);
    half.add(one);
  }
  EXPECT_NEAR(alike.value(), 1, 1e-12);
  EXPECT_NEAR(all.value(), 4, 1e-12);
  EXPECT_NEAR(half.value(), 2, 1e-12);
}

}  // namespace
}  // namespace troupe::learner
