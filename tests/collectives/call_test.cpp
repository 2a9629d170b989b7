#include <troupe/collectives/call.hpp>

#include <gtest/gtest.h>

#include <cmath>

namespace troupe::collectives {
namespace {

TEST(Call, DescribesItself) {
  EXPECT_EQ((Call{.kind = CallKind::kAllReduce, .name = "grad", .count = 200, .op = ReduceOp::kMean}).describe(),
            "all_reduce \"grad\" float32[200] mean");
  EXPECT_EQ((Call{.kind = CallKind::kBroadcast, .name = "w", .count = 3, .root = 2}).describe(),
            "broadcast \"w\" float32[3] from rank 2");
  EXPECT_EQ(
      (Call{.kind = CallKind::kAllGather, .name = "x", .count = 6, .shape = {3, 2}, .wire = DType::kBF16}).describe(),
      "all_gather \"x\" float32[3, 2] as bfloat16");
  EXPECT_EQ((Call{.kind = CallKind::kAllGather, .name = "x", .count = 6, .dtype = DType::kI64}).describe(),
            "all_gather \"x\" int64[3]");
  EXPECT_EQ((Call{.kind = CallKind::kBarrier, .name = "start"}).describe(), "barrier \"start\"");
}

TEST(Call, NamesBothRanksWhenTheyDiffer) {
  const Call one{.kind = CallKind::kAllReduce, .name = "grad", .count = 200};
  Call two = one;
  EXPECT_TRUE(check_same_call(one, 0, two, 3, {}).ok());
  two.count = 100;
  const Status status = check_same_call(one, 0, two, 3, {.epoch = 2, .index = 17});
  EXPECT_EQ(status.error().code, Code::kShapeMismatch);
  EXPECT_EQ(status.error().message,
            "collective: rank 3 calls all_reduce \"grad\" float32[100] sum, but rank 0 calls all_reduce \"grad\" "
            "float32[200] sum (call 17 of epoch 2)");
}

TEST(Call, RefusesArgumentsThatCannotWork) {
  const GroupView view{.epoch = 1, .rank = 1, .size = 3};
  const Call gather{.kind = CallKind::kAllGather, .name = "x", .count = 4};
  EXPECT_TRUE(check_arguments(gather, {}, view, 4, 12).ok());
  EXPECT_NE(check_arguments(gather, {}, view, 4, 11).error().message.find("4 and 11 elements, expected 4 and 12"),
            std::string::npos);
  const Call scatter{.kind = CallKind::kReduceScatter, .name = "x", .count = 4};
  EXPECT_TRUE(check_arguments(scatter, {}, view, 12, 4).ok());
  EXPECT_FALSE(check_arguments(scatter, {}, view, 4, 4).ok());
  for (double weight : {-1.0, static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
    EXPECT_EQ(check_arguments(gather, {.weight = weight}, view, 4, 12).error().code, Code::kInvalidArgument);
  }
  EXPECT_FALSE(check_arguments({.kind = CallKind::kBroadcast, .root = 3}, {}, view, 0, 0).ok());
  Call shaped = gather;
  shaped.shape = {2, 3};
  EXPECT_NE(check_arguments(shaped, {}, view, 4, 12).error().message.find("shape [2, 3] has 6 elements, expected 4"),
            std::string::npos);
  Call wired = gather;
  wired.wire = DType::kF64;
  EXPECT_FALSE(check_arguments(wired, {}, view, 4, 12).ok());
  Call integers = gather;
  integers.dtype = DType::kI64;
  integers.shape = {2};
  EXPECT_TRUE(check_arguments(integers, {}, view, 4, 12).ok());
  integers.wire = DType::kBF16;
  EXPECT_NE(check_arguments(integers, {}, view, 4, 12).error().message.find("only float32 is reduced or rounded"),
            std::string::npos);
  Call sum = integers;
  sum.wire = DType::kF32;
  sum.kind = CallKind::kAllReduce;
  EXPECT_FALSE(check_arguments(sum, {}, view, 4, 4).ok());
  EXPECT_TRUE(check_view(view).ok());
  EXPECT_FALSE(check_view({.rank = 3, .size = 3}).ok());
  EXPECT_FALSE(check_view({.rank = -1, .size = 3}).ok());
  EXPECT_FALSE(check_view({.rank = 0, .size = 0}).ok());
}

}  // namespace
}  // namespace troupe::collectives
