#include <troupe/core/tensor.hpp>

#include <gtest/gtest.h>

#include <cstdint>

namespace troupe {
namespace {

TEST(Shape, ScalarHasOneElement) {
  EXPECT_EQ(Shape{}.elements(), 1);
  EXPECT_EQ((Shape{3, 0}).elements(), 0);
  EXPECT_EQ((Shape{17}).with_leading(256).to_string(), "[256, 17]");
}

TEST(Signature, CheckSameNamesTheColumnThatDiffers) {
  const Signature one{{"observation", DType::kF32, {17}}, {"reward", DType::kF32, {}}};
  Signature two = one;
  EXPECT_TRUE(check_same(one, two, "insert").ok());
  two[1].dtype = DType::kF64;
  EXPECT_EQ(check_same(two, one, "insert").error().message,
            "insert: column 1 is reward: float64[], expected reward: float32[]");
}

TEST(BatchBuffer, AlignsEveryColumn) {
  BatchBuffer buffer({{"a", DType::kU8, {3}}, {"b", DType::kF64, {}}}, 5);
  const MutableBatchView& view = buffer.mutable_view();
  ASSERT_EQ(view.columns.size(), 2u);
  EXPECT_EQ(view.columns[0].size(), 15u);
  EXPECT_EQ(view.as<double>(1).size(), 5u);
  for (const auto& column : view.columns) EXPECT_EQ(reinterpret_cast<std::uintptr_t>(column.data()) % 64, 0u);
  EXPECT_EQ(buffer.view().find("b"), 1);
  EXPECT_EQ(buffer.view().find("c"), -1);
}

}  // namespace
}  // namespace troupe
