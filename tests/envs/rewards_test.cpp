// The golden numbers were printed by dm_control 1.0.50's rewards.tolerance(). gtest's 4 ulps allow for numpy's exp.
#include <gtest/gtest.h>

#include <array>

#include <troupe/envs/rewards.hpp>

namespace troupe::envs {
namespace {

TEST(Tolerance, AgreesWithDmControl) {
  const std::array<Tolerance, 8> options = {{
      {},
      {.lower = 0, .upper = 1},
      {.margin = 2},
      {.lower = 1.2, .upper = kInfinity, .margin = .6},
      {.lower = 10, .upper = kInfinity, .margin = 10, .sigmoid = Sigmoid::kLinear, .value_at_margin = 0},
      {.lower = 8, .upper = kInfinity, .margin = 4, .sigmoid = Sigmoid::kLinear, .value_at_margin = .5},
      {.margin = 1, .sigmoid = Sigmoid::kQuadratic, .value_at_margin = 0},
      {.margin = 2, .sigmoid = Sigmoid::kQuadratic, .value_at_margin = .3},
  }};
  struct Golden {
    double x;
    std::array<double, 8> values;  // one for each of `options`
  };
  const Golden goldens[] = {
      {-3, {0, 0, 0.005623413251903492, 9.99999999999985e-50, 0, 0, 0, 0}},
      {-.5, {0, 0, 0.8659643233600653, 9.380418666398143e-09, 0, 0, 0.75, 0.95625}},
      {0, {1, 1, 1, 0.00010000000000000009, 0, 0, 1, 1}},
      {.25, {0, 1, 0.9646616199111993, 0.0031121144176587327, 0.025000000000000022, 0.03125, 0.9375, 0.9890625}},
      {1, {0, 1, 0.5623413251903491, 0.7742636826811271, 0.09999999999999998, 0.125, 0, 0.825}},
      {1.5, {0, 0, 0.27384196342643613, 1, 0.15000000000000002, 0.1875, 0, 0.60625}},
      {2, {0, 0, 0.10000000000000002, 1, 0.19999999999999996, 0.25, 0, 0.29999999999999993}},
      {9, {0, 0, 5.6234132519034996e-21, 1, 0.9, 1, 0, 0}},
      {11, {0, 0, 5.623413251903517e-31, 1, 1, 1, 0, 0}},
  };
  for (const Golden& golden : goldens) {
    for (std::size_t i = 0; i < options.size(); ++i) {
      SCOPED_TRACE(testing::Message() << "x " << golden.x << ", options " << i);
      EXPECT_DOUBLE_EQ(tolerance(golden.x, options[i]), golden.values[i]);
    }
  }
}

TEST(Tolerance, FallsOffSlowlyWithALongTailAndReciprocally) {
  const Tolerance long_tail = {.lower = -1, .upper = .2, .margin = .5, .sigmoid = Sigmoid::kLongTail};
  const Tolerance reciprocal = {.lower = -1, .upper = .2, .margin = 2, .sigmoid = Sigmoid::kReciprocal};
  struct Golden {
    double x;
    double long_tail;
    double reciprocal;
  };
  for (const Golden& golden :
       {Golden{-3, 0.006896551724137931, 0.1}, Golden{-1.5, 0.1, 0.3076923076923077}, Golden{0, 1, 1},
        Golden{.25, 0.9174311926605506, 0.816326530612245}, Golden{9, 0.0003585720227764948, 0.02463054187192118}}) {
    EXPECT_DOUBLE_EQ(tolerance(golden.x, long_tail), golden.long_tail) << golden.x;
    EXPECT_DOUBLE_EQ(tolerance(golden.x, reciprocal), golden.reciprocal) << golden.x;
  }
}

TEST(Tolerance, SmallControlsAreRewardedByTheirMean) {
  EXPECT_DOUBLE_EQ(small_controls(std::array{0.0, .5, -2.0}), (1 + .75 + 0) / 3);
}

TEST(Tolerance, TakesTheValueAtTheMarginThere) {
  for (const auto sigmoid :
       {Sigmoid::kGaussian, Sigmoid::kLinear, Sigmoid::kQuadratic, Sigmoid::kLongTail, Sigmoid::kReciprocal}) {
    EXPECT_DOUBLE_EQ(tolerance(5, {.lower = 1, .upper = 2, .margin = 3, .sigmoid = sigmoid, .value_at_margin = .2}),
                     .2);
    EXPECT_DOUBLE_EQ(tolerance(-2, {.lower = 1, .upper = 2, .margin = 3, .sigmoid = sigmoid, .value_at_margin = .2}),
                     .2);
  }
}

TEST(ToleranceDeathTest, RefusesBoundsInTheWrongOrder) {
  EXPECT_DEATH(tolerance(0, {.lower = 1, .upper = 0}), "bounds");
}

}  // namespace
}  // namespace troupe::envs
