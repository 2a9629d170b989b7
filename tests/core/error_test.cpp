#include <troupe/core/error.hpp>

#include <gtest/gtest.h>

namespace troupe {
namespace {

Result<int> half(int value) {
  if (value % 2 != 0) return Error{Code::kInvalidArgument, "half: got an odd number"};
  return value / 2;
}

Result<int> quarter(int value) {
  TROUPE_ASSIGN(const int once, half(value));
  return half(once);
}

Status check_even(int value) {
  TROUPE_TRY(half(value));
  return {};
}

TEST(Result, CarriesValueOrError) {
  EXPECT_EQ(half(4).value(), 2);
  EXPECT_FALSE(half(3).ok());
  EXPECT_EQ(half(3).error().code, Code::kInvalidArgument);
}

TEST(Result, MacrosReturnTheFirstError) {
  EXPECT_EQ(quarter(8).value(), 2);
  EXPECT_EQ(quarter(6).error().message, "half: got an odd number");
  EXPECT_TRUE(check_even(2).ok());
  EXPECT_FALSE(check_even(1).ok());
}

TEST(ResultDeathTest, ValueOfAnErrorAborts) { EXPECT_DEATH((void)half(3).value(), "half: got an odd number"); }

}  // namespace
}  // namespace troupe
