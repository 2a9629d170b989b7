// The arithmetic by hand: everything else is compared with it.
#include <troupe/collectives/reduce.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

namespace troupe::collectives {
namespace {

std::vector<float> reduced(const std::vector<std::vector<float>>& inputs, ReduceOp op,
                           std::vector<double> weights = {}) {
  std::vector<const float*> pointers;
  for (const auto& input : inputs) pointers.push_back(input.data());
  weights.resize(inputs.size(), 1.0);
  std::vector<float> out(inputs[0].size(), -99.0f);
  reduce(pointers, weights, op, out.size(), out.data());
  return out;
}

TEST(Reduce, FollowsItsOperation) {
  const std::vector<std::vector<float>> inputs{{1, -2, 3}, {4, 5, -6}, {-7, 8, 9}};
  EXPECT_EQ(reduced(inputs, ReduceOp::kSum), (std::vector<float>{-2, 11, 6}));
  EXPECT_EQ(reduced(inputs, ReduceOp::kMin), (std::vector<float>{-7, -2, -6}));
  EXPECT_EQ(reduced(inputs, ReduceOp::kMax), (std::vector<float>{4, 8, 9}));
  EXPECT_EQ(reduced(inputs, ReduceOp::kProduct), (std::vector<float>{-28, -80, -162}));
  EXPECT_EQ(reduced({{3, 6}, {5, 8}}, ReduceOp::kMean), (std::vector<float>{4, 7}));
}

TEST(Reduce, WeighsTheMean) {
  EXPECT_EQ(reduced({{1}, {4}, {10}}, ReduceOp::kMean, {1, 2, 1}), (std::vector<float>{19.0f / 4}));
  EXPECT_EQ(reduced({{5}}, ReduceOp::kMean, {256}), (std::vector<float>{5}));
}

TEST(Reduce, DoesNotReadRanksWithoutWeight) {
  EXPECT_EQ(reduced({{NAN}, {4}, {INFINITY}}, ReduceOp::kMean, {0, 3, 0}), (std::vector<float>{4}));
}

TEST(Reduce, IsATreeOfNeighboursForAnyNumberOfRanks) {
  for (std::size_t ranks = 1; ranks <= 20; ++ranks) {
    for (const std::size_t count : {1, 15, 16, 1024, 3003}) {
      std::vector<std::vector<float>> inputs(ranks, std::vector<float>(count));
      for (std::size_t r = 0; r < ranks; ++r) {
        for (std::size_t i = 0; i < count; ++i) inputs[r][i] = 1.0f / static_cast<float>(3 + 7 * r + i % 101);
      }
      std::vector<std::vector<float>> level = inputs;
      while (level.size() > 1) {
        std::vector<std::vector<float>> next;
        for (std::size_t n = 0; n < level.size(); n += 2) {
          next.push_back(level[n]);
          for (std::size_t i = 0; n + 1 < level.size() && i < count; ++i) next.back()[i] += level[n + 1][i];
        }
        level = std::move(next);
      }
      ASSERT_EQ(reduced(inputs, ReduceOp::kSum), level[0]) << ranks << " ranks, " << count;
    }
  }
}

TEST(Reduce, ScalesEqualPartsOfAPowerOfTwoExactly) {
  EXPECT_EQ(mean_shares(std::vector<double>{32, 32, 32, 32}), (std::vector<float>{0.25f, 0.25f, 0.25f, 0.25f}));
  const float x = 1.0f / 3;
  EXPECT_EQ(reduced({{x}, {x}, {x}, {x}}, ReduceOp::kMean, {32, 32, 32, 32}), (std::vector<float>{x}));
}

TEST(Reduce, MayWriteWhereItReads) {
  std::vector<float> a{1, 2, 3};
  std::vector<float> b{10, 20, 30};
  reduce_tree(std::array<const float*, 2>{a.data(), b.data()}, {}, ReduceOp::kSum, 3, std::array{a.data(), b.data()});
  EXPECT_EQ(a, (std::vector<float>{11, 22, 33}));
  EXPECT_EQ(a, b);
}

TEST(Reduce, RoundsToBfloat16AtTheNearestEven) {
  const float one_bit = 1.0f / 128;  // bfloat16 keeps 7 bits after the point
  std::vector<float> x{1.0f + one_bit / 2, 1.0f + 1.5f * one_bit, 1.0f + 0.6f * one_bit, -3.0f, INFINITY, NAN};
  round_bf16(x.data(), 1, x.size(), x.data());
  EXPECT_EQ(x[0], 1.0f);
  EXPECT_EQ(x[1], 1.0f + 2 * one_bit);
  EXPECT_EQ(x[2], 1.0f + one_bit);
  EXPECT_EQ(x[3], -3.0f);
  EXPECT_EQ(x[4], INFINITY);
  EXPECT_TRUE(std::isnan(x[5]));
}

TEST(Reduce, KeepsNanInMinimumAndMaximum) {
  for (ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
    for (const auto& out : {reduced({{NAN}, {1}}, op), reduced({{1}, {NAN}}, op)}) EXPECT_TRUE(std::isnan(out[0]));
  }
}

}  // namespace
}  // namespace troupe::collectives
