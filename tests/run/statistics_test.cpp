// Golden values are from Python: scipy's trim_mean(values, 0.25) and numpy's percentile written out, and of the
// bootstrap the exact distribution, over all resamples that there are (3^3 * 4^4 of the two strata below).
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include <troupe/run/statistics.hpp>

namespace troupe::apps {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
const std::vector<std::vector<double>> kStrata = {{120, 480, 300}, {700, 820, 905, 640}};

TEST(Statistics, AreThoseOfNumpyAndScipy) {
  const std::vector<double> returns = {871.2, 12.5, 640, 803.7, 795.1};
  EXPECT_DOUBLE_EQ(mean(returns), 624.5);
  EXPECT_DOUBLE_EQ(sample_std(returns), 352.4422434952995);
  EXPECT_DOUBLE_EQ(interquartile_mean(returns), 746.2666666666668) << "one value goes at each end";
  EXPECT_DOUBLE_EQ(interquartile_mean(std::vector<double>{1, 2, 3}), 2) << "of three none goes";
  EXPECT_DOUBLE_EQ(interquartile_mean(std::vector<double>{4, 1, 3, 100}), 3.5);
  EXPECT_DOUBLE_EQ(interquartile_mean(std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7}), 3.5);
  EXPECT_DOUBLE_EQ(interquartile_mean(std::vector<double>{5}), 5);
  EXPECT_DOUBLE_EQ(interquartile_mean(std::vector<double>{1, 2, 3, 4, 5, 6, 7, 80, 90}), 5);
  EXPECT_DOUBLE_EQ(quantile(std::vector<double>{1, 2, 4, 8}, 0.3), 1.9);
  EXPECT_DOUBLE_EQ(quantile(std::vector<double>{1, 2, 4, 8}, 1), 8);
}

TEST(Statistics, OfTooFewValuesAreNoNumbers) {
  EXPECT_TRUE(std::isnan(mean({})));
  EXPECT_TRUE(std::isnan(interquartile_mean({})));
  EXPECT_TRUE(std::isnan(median({})));
  EXPECT_TRUE(std::isnan(sample_std(std::vector<double>{1})));
  const std::vector<std::vector<double>> single = {{1}, {5}};
  EXPECT_TRUE(std::isnan(bootstrap_interval(single, mean).low)) << "single runs say nothing about others";
}

TEST(Statistics, TheMedianCountsWhatWasNeverReached) {
  EXPECT_EQ(median(std::vector<double>{3, kInfinite, 1}), 3);
  EXPECT_EQ(median(std::vector<double>{3, kInfinite, 1, 2}), 2.5);
  EXPECT_EQ(median(std::vector<double>{3, kInfinite}), kInfinite);
  EXPECT_EQ(median(std::vector<double>{kInfinite, kInfinite}), kInfinite);
}

TEST(Bootstrap, HasTheIntervalOfAllResamplesWithinEachStratum) {
  const Interval iqm = bootstrap_interval(kStrata, interquartile_mean, {.resamples = 20000});
  // The bounds lie in flat parts of the exact distribution: its 2 % and 3 % points, and its 97 % and 97.5 %, are equal.
  EXPECT_DOUBLE_EQ(iqm.low, 480);
  EXPECT_NEAR(iqm.high, 682, 2);
  const Interval means = bootstrap_interval(kStrata, mean, {.resamples = 20000});
  EXPECT_NEAR(means.low, 477.14285714285717, 4);  // values lie 2.9 apart there
  EXPECT_NEAR(means.high, 659.2857142857143, 4);
  // Without strata it would be from 332 to 789.
}

TEST(Bootstrap, IsTheSameEveryTimeAndNarrowerWithLessConfidence) {
  const Interval first = bootstrap_interval(kStrata, interquartile_mean);
  const Interval second = bootstrap_interval(kStrata, interquartile_mean);
  EXPECT_EQ(first.low, second.low);
  EXPECT_EQ(first.high, second.high);
  const Interval half = bootstrap_interval(kStrata, interquartile_mean, {.confidence = 0.5});
  EXPECT_GT(half.low, first.low);
  EXPECT_LT(half.high, first.high);
  const std::vector<std::vector<double>> alike = {{7, 7, 7}};
  EXPECT_EQ(bootstrap_interval(alike, mean).low, 7);
  EXPECT_EQ(bootstrap_interval(alike, mean).high, 7);
}

}  // namespace
}  // namespace troupe::apps
