#include <troupe/learner/engine/cuda/weight_grad.hpp>

#include <gtest/gtest.h>

namespace troupe::learner {
namespace {

/// Of ResNet's convolutions, 3 x 3.
ConvShape weight_grad(std::int64_t batch, std::int64_t side, std::int64_t channels) {
  return {.pass = ConvPass::kWeightGrad,
          .batch = batch,
          .height = side,
          .width = side,
          .in = channels,
          .kernel_h = 3,
          .kernel_w = 3,
          .out = channels,
          .padding = 1};
}

TEST(WeightGrad, TheFewerTilesAResultHasTheMorePartsTheBatchIsCutInto) {
  EXPECT_EQ(batch_parts(weight_grad(256, 56, 64)), 32);
  EXPECT_EQ(batch_parts(weight_grad(256, 28, 128)), 8);
  EXPECT_EQ(batch_parts(weight_grad(256, 14, 256)), 2);
  EXPECT_EQ(batch_parts(weight_grad(256, 7, 512)), 1);
}

TEST(WeightGrad, PartsAreOfEqualSizeAndWorthAKernel) {
  EXPECT_EQ(batch_parts(weight_grad(24, 56, 64)), 8);
  EXPECT_EQ(batch_parts(weight_grad(25, 56, 64)), 1);
  EXPECT_EQ(batch_parts(weight_grad(256, 4, 64)), 1);
}

TEST(WeightGrad, PartsBeginWhereTheLibraryWantsThem) {
  ConvShape odd = weight_grad(4, 65, 3);
  EXPECT_EQ(batch_parts(odd), 1);
  odd.height = odd.width = 64;
  EXPECT_EQ(batch_parts(odd), 1) << "their results do not";
  odd.out = 16;
  EXPECT_EQ(batch_parts(odd), 4);
}

TEST(WeightGrad, OnlyItIsCut) {
  ConvShape forward = weight_grad(256, 56, 64);
  forward.pass = ConvPass::kForward;
  EXPECT_EQ(batch_parts(forward), 1);
}

TEST(WeightGrad, OfSinglePixelsIsAProduct) {
  ConvShape conv = weight_grad(256, 56, 64);
  EXPECT_FALSE(is_product(conv));
  conv.kernel_h = conv.kernel_w = 1;
  EXPECT_FALSE(is_product(conv)) << "padded";
  conv.padding = 0;
  EXPECT_TRUE(is_product(conv));
  conv.stride = 2;
  EXPECT_FALSE(is_product(conv));
}

}  // namespace
}  // namespace troupe::learner
