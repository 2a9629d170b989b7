// What ranks write to each other, there and back, and what no rank writes: each of it was an abort or a wrong mean.
#include <troupe/collectives/detail/group_message.hpp>

#include <gtest/gtest.h>

#include <array>
#include <limits>

namespace troupe::collectives::detail {
namespace {

constexpr std::array kValues = {1.0F, -2.0F, 0.5F};
constexpr std::size_t kDimensionAt = sizeof(double) + 5;  // behind weight, kind, op, wire, dtype and rank

Call sample() { return {.kind = CallKind::kAllReduce, .name = "critic/grad", .count = 3, .shape = Shape{3}}; }

template <typename T>
std::vector<std::byte> with(std::vector<std::byte> bytes, std::size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof(value));
  return bytes;
}

TEST(GroupMessage, ErrorsOfEveryCodeTravel) {
  for (int code = 0; code <= static_cast<int>(kLastCode); ++code) {
    const FailedNote note{3, {static_cast<Code>(code), "the device is lost"}};
    const auto read = read_failed(write_failed(note));
    ASSERT_TRUE(read.has_value()) << to_string(note.error.code);
    EXPECT_EQ(read->error.code, note.error.code);
    EXPECT_EQ(read->error.message, note.error.message);
  }
  const FailedNote beyond{3, {static_cast<Code>(static_cast<int>(kLastCode) + 1), ""}};
  EXPECT_FALSE(read_failed(write_failed(beyond)).has_value());
}

TEST(GroupMessage, AHeadComesBackAsItWas) {
  const auto read = read_head(write_head(sample(), 32, kValues));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->call, sample());
  EXPECT_EQ(read->weight, 32);
  EXPECT_EQ(read->values, std::vector<float>(kValues.begin(), kValues.end()));
}

TEST(GroupMessage, DimensionsBelowZeroAreRefused) {
  const auto good = write_head(sample(), 1, kValues);
  EXPECT_TRUE(read_head(with(good, kDimensionAt, std::int64_t{4})).has_value()) << "that is where it stands";
  for (const std::int64_t dimension : {std::int64_t{-1}, std::numeric_limits<std::int64_t>::min()}) {
    EXPECT_FALSE(read_head(with(good, kDimensionAt, dimension)).has_value()) << dimension;
  }
}

TEST(GroupMessage, CountsBeyondWhatAShapeHoldsAreRefused) {
  const auto good = write_head(sample(), 1, kValues);
  constexpr std::size_t kCountAt = kDimensionAt + sizeof(std::int64_t) + sizeof(std::int32_t);  // behind shape and root
  EXPECT_TRUE(read_head(with(good, kCountAt, std::uint64_t{4})).has_value()) << "that is where it stands";
  EXPECT_FALSE(read_head(with(good, kCountAt, std::uint64_t{1} << 63)).has_value());
}

TEST(GroupMessage, WeightsThatNoMeanCanHaveAreRefused) {
  const auto good = write_head(sample(), 1, kValues);
  for (const double weight :
       {-1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_FALSE(read_head(with(good, 0, weight)).has_value()) << weight;
  }
}

TEST(GroupMessage, ValuesOfOtherTypesAreRefused) {
  const auto good = write_head(sample(), 1, kValues);
  constexpr std::size_t kWireAt = sizeof(double) + 2;
  EXPECT_TRUE(read_head(with(good, kWireAt, DType::kBF16)).has_value());
  for (const int wire : {1, 3, 4, 5, 6, 255}) {
    EXPECT_FALSE(read_head(with(good, kWireAt, static_cast<DType>(wire))).has_value()) << wire;
  }
  EXPECT_TRUE(read_head(with(good, kWireAt + 1, DType::kI64)).has_value());
  for (const int dtype : {1, 2, 3, 5, 6, 255}) {
    EXPECT_FALSE(read_head(with(good, kWireAt + 1, static_cast<DType>(dtype))).has_value()) << dtype;
  }
}

}  // namespace
}  // namespace troupe::collectives::detail
