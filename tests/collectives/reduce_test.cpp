// The arithmetic by hand: everything else is compared with it.
#include <troupe/collectives/reduce.hpp>

#include <gtest/gtest.h>

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

TEST(Reduce, KeepsNanInMinimumAndMaximum) {
  for (ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
    for (const auto& out : {reduced({{NAN}, {1}}, op), reduced({{1}, {NAN}}, op)}) EXPECT_TRUE(std::isnan(out[0]));
  }
}

}  // namespace
}  // namespace troupe::collectives
