#include <troupe/messages/detail/finite.hpp>

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace troupe::messages {
namespace {

template <typename T>
bool is_finite(T value) {
  return all_finite(std::is_same_v<T, float> ? DType::kF32 : DType::kF64, std::as_bytes(std::span(&value, 1)));
}

TEST(Finite, EveryBFloat16IsWhatItsFloatIs) {
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    ASSERT_EQ(all_finite(DType::kBF16, std::as_bytes(std::span(&half, 1))),
              std::isfinite(std::bit_cast<float>(bits << 16)))
        << bits;
  }
}

TEST(Finite, TheEdgesOfFloatAndDouble) {
  const auto edges = [](auto one) {
    using T = decltype(one);
    using Limits = std::numeric_limits<T>;
    for (const T sign : {T{1}, T{-1}}) {
      for (const T value : {T{0}, Limits::denorm_min(), Limits::min(), T{1}, Limits::max()}) {
        EXPECT_TRUE(is_finite(sign * value)) << sign * value;
      }
      for (const T value : {Limits::infinity(), Limits::quiet_NaN(), Limits::signaling_NaN()}) {
        EXPECT_FALSE(is_finite(std::copysign(value, sign))) << value;
      }
    }
  };
  edges(1.0f);
  edges(1.0);
  EXPECT_FALSE(is_finite(std::bit_cast<float>(0x7f800001u))) << "the least NaN";
  EXPECT_FALSE(is_finite(std::bit_cast<float>(0xffffffffu)));
}

TEST(Finite, OneOfManyIsFoundWhereverItIs) {
  std::vector<float> values(1000, 2.0f);
  const auto bytes = std::as_bytes(std::span(values));
  EXPECT_TRUE(all_finite(DType::kF32, bytes));
  for (float& value : values) {
    value = -std::numeric_limits<float>::infinity();
    EXPECT_FALSE(all_finite(DType::kF32, bytes));
    EXPECT_TRUE(all_finite(DType::kI32, bytes)) << "as integers they are what they are";
    value = 2;
  }
  EXPECT_TRUE(all_finite(DType::kF32, {}));
}

}  // namespace
}  // namespace troupe::messages
