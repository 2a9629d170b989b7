// Stacks that are split and joined: against a plain loop, for every dtype, dimension and size.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include <troupe/core/detail/byte_shuffle.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/core/stacks.hpp>

namespace troupe {
namespace {

using ::testing::HasSubstr;

std::vector<std::byte> random_bytes(Rng& rng, std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng());
  return bytes;
}

TEST(ByteShuffle, InterleavesArraysOfEverySizeWithEveryInstructionSet) {
  using detail::Shuffle;
  Rng rng(1);
  for (const std::size_t arrays : {1, 2, 3, 4, 7, 16, 70}) {
    for (const std::size_t unit : {1, 2, 3, 4, 5, 8, 12, 16, 31, 100}) {
      for (const std::size_t outer : {1, 2, 15, 16, 17, 33, 300}) {
        const std::size_t bytes = outer * unit;
        std::vector<std::vector<std::byte>> all;
        std::vector<const std::byte*> pointers;
        for (std::size_t k = 0; k < arrays; ++k) all.push_back(random_bytes(rng, bytes));
        for (const auto& array : all) pointers.push_back(array.data());
        for (const Shuffle shuffle : {Shuffle::kNone, Shuffle::kSsse3, Shuffle::kVbmi}) {
          if (shuffle > detail::best_shuffle()) continue;
          SCOPED_TRACE(::testing::Message()
                       << arrays << " of " << outer << " x " << unit << ", shuffle " << static_cast<int>(shuffle));
          // One byte more shows what is written too far.
          std::vector<std::byte> together(arrays * bytes + 1, std::byte{77});
          detail::interleave(pointers.data(), {arrays, outer, unit}, together.data(), shuffle);
          ASSERT_EQ(together.back(), std::byte{77});
          for (std::size_t i = 0; i < outer; ++i) {
            for (std::size_t k = 0; k < arrays; ++k) {
              ASSERT_EQ(std::memcmp(&together[(i * arrays + k) * unit], &all[k][i * unit], unit), 0);
            }
          }
          for (std::size_t k = 0; k < arrays; ++k) {
            std::vector<std::byte> array(bytes + 1, std::byte{77});
            detail::deinterleave(together.data(), {arrays, outer, unit}, k, array.data(), shuffle);
            ASSERT_EQ(array.back(), std::byte{77});
            array.pop_back();
            ASSERT_EQ(array, all[k]);
          }
        }
      }
    }
  }
}

TEST(ByteShuffle, FindsThatArraysHaveMovedUpByOne) {
  Rng rng(3);
  for (const std::size_t arrays : {2, 3, 4, 7, 70}) {
    for (const std::size_t unit : {1, 2, 3, 8, 31, 100}) {
      for (const std::size_t outer : {1, 2, 63, 64, 65, 129, 300}) {
        SCOPED_TRACE(::testing::Message() << arrays << " of " << outer << " x " << unit);
        const detail::Interleaved how{arrays, outer, unit};
        const std::size_t pixel = arrays * unit;
        // On the heap and of its very size, for the sanitizer.
        const std::vector<std::byte> before = random_bytes(rng, outer * pixel);
        std::vector<std::byte> now = random_bytes(rng, outer * pixel);
        for (std::size_t i = 0; i < outer; ++i) std::memcpy(&now[i * pixel], &before[i * pixel + unit], pixel - unit);
        ASSERT_TRUE(detail::is_shifted(before.data(), now.data(), how));
        for (const std::size_t at : {std::size_t{0}, rng.below(outer), outer - 1}) {
          std::byte& last_kept = now[at * pixel + pixel - unit - 1];
          last_kept ^= std::byte{1};
          ASSERT_FALSE(detail::is_shifted(before.data(), now.data(), how)) << at;
          last_kept ^= std::byte{1};
        }
      }
    }
  }
}

Signature many_stacks() {
  return {{"pixels", DType::kU8, {6, 5, 9}, {3, 2}},
          {"action", DType::kF32, {2}},
          {"depth", DType::kF32, {4, 7, 5}, {4, 0}},
          {"other_pixels", DType::kU8, {6, 5, 9}, {3}},
          {"middle", DType::kI64, {3, 10, 2}, {5, 1}}};
}

TEST(Stacks, SplitRowsAreTheSameOnesAgain) {
  const Stacks stacks(many_stacks());
  ASSERT_TRUE(stacks.any());
  EXPECT_EQ(stacks.pools().size(), 3U) << "pixels share one";
  EXPECT_EQ(stacks.split()[0], (TensorSpec{"pixels", DType::kI32, {3}}));
  EXPECT_EQ(stacks.split()[1], stacks.whole()[1]);
  Rng rng(2);
  BatchBuffer rows(many_stacks(), 7), again(many_stacks(), 9);
  for (const auto column : rows.mutable_view().columns) {
    for (std::byte& byte : column) byte = static_cast<std::byte>(rng.below(2));
  }
  StackSplitter splitter(stacks);
  for (int round = 0; round < 2; ++round) {
    const BatchView split = splitter.split(rows.view());
    ASSERT_TRUE(stacks.is_split(split));
    ASSERT_TRUE(stacks.check_planes(split, "test").ok());
    stacks.join(split, again.mutable_view(), 2);
    for (std::size_t c = 0; c < many_stacks().size(); ++c) {
      EXPECT_TRUE(std::ranges::equal(again.view().slice(2, 7).columns[c], rows.view().columns[c])) << c;
    }
    const BatchView part = WholeRows(stacks).of(rows.view());
    EXPECT_EQ(part.columns[0].data(), rows.view().columns[0].data()) << "whole ones stay where they are";
    WholeRows whole(stacks);
    const BatchView joined = whole.of(split.slice(3, 2));
    EXPECT_TRUE(std::ranges::equal(joined.columns[2], rows.view().slice(3, 2).columns[2]));
  }
}

TEST(Stacks, APlaneOfManyRowsIsThereOnce) {
  const Signature signature = {{"pixels", DType::kU8, {4, 4, 6}, {3}}, {"next_pixels", DType::kU8, {4, 4, 6}, {3}}};
  const Stacks stacks(signature);
  BatchBuffer rows(signature, 5);
  for (std::size_t column : {0, 1}) {
    auto bytes = rows.mutable_view().as<std::uint8_t>(column);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const std::size_t row = i / 96, k = i % 6 / 2, pixel = i % 96 / 6;
      bytes[i] = static_cast<std::uint8_t>(10 * (row + column + k) + pixel % 3);  // the image of step row + column + k
    }
  }
  StackSplitter splitter(stacks);
  const BatchView split = splitter.split(rows.view());
  EXPECT_EQ(split.planes[0].size() / 32, 5U + 1 + 2);
  // All zero: one plane.
  BatchBuffer same(signature, 5);
  EXPECT_EQ(splitter.split(same.view()).planes[0].size(), 32U);
}

/// Rows that are like experience, with everything that can come between: stacks that move up by one, that are another
/// column's of a row further on or before, that come again, and new ones; few different planes, so that they mix.
TEST(Stacks, RowsOfEveryKindAreSplitAndJoined) {
  const Signature signature = {{"pixels", DType::kU8, {3, 3, 6}, {3}},
                               {"wide", DType::kU8, {9, 6}, {3}},
                               {"long", DType::kU8, {3, 18}, {3, 0}},
                               {"next_pixels", DType::kU8, {3, 3, 6}, {3}}};
  const Stacks stacks(signature);
  ASSERT_EQ(stacks.pools().size(), 1U);
  const std::size_t bytes = signature[0].bytes();
  Rng rng(4);
  StackSplitter splitter(stacks);
  for (int round = 0; round < 300; ++round) {
    const auto count = static_cast<std::int64_t>(1 + rng.below(9));
    BatchBuffer rows(signature, count), again(signature, count);
    for (const auto column : rows.mutable_view().columns) {
      for (std::size_t at = 0; at < column.size(); at += bytes) {
        std::byte* const stack = column.data() + at;
        const auto& source = rows.mutable_view().columns[rng.below(4)];
        switch (rng.below(4)) {
          case 0:
            for (std::size_t i = 0; i < bytes; ++i) stack[i] = static_cast<std::byte>(rng.below(2));
            break;
          case 1:
            std::ranges::copy(source.subspan(rng.below(static_cast<std::size_t>(count)) * bytes, bytes), stack);
            break;
          default:
            if (at < bytes) break;
            for (std::size_t i = 0; i < bytes; ++i) {
              stack[i] = i % 6 < 4 ? (stack - bytes)[i + 2] : static_cast<std::byte>(rng.below(2));
            }
        }
      }
    }
    const BatchView split = splitter.split(rows.view());
    ASSERT_TRUE(stacks.check_planes(split, "test").ok());
    stacks.join(split, again.mutable_view(), 0);
    for (std::size_t c = 0; c < signature.size(); ++c) {
      ASSERT_TRUE(std::ranges::equal(again.view().columns[c], rows.view().columns[c])) << round << " " << c;
    }
    // No plane is there twice.
    const std::span<const std::byte> planes = split.planes[0];
    for (std::size_t a = 0; a < planes.size(); a += bytes / 3) {
      for (std::size_t b = a + bytes / 3; b < planes.size(); b += bytes / 3) {
        ASSERT_NE(std::memcmp(&planes[a], &planes[b], bytes / 3), 0) << round;
      }
    }
  }
}

TEST(Stacks, RefuseWhatNamesNoPlane) {
  const Signature signature = {{"pixels", DType::kU8, {2, 2, 3}, {3}}};
  const Stacks stacks(signature);
  BatchBuffer rows(signature, 2);
  StackSplitter splitter(stacks);
  const BatchView good = splitter.split(rows.view());
  ASSERT_TRUE(stacks.check_planes(good, "test").ok());
  for (const std::int32_t place : {-1, 1, 1 << 30}) {
    std::vector<std::int32_t> places(6, 0);
    places[4] = place;
    BatchView bad = good;
    bad.columns[0] = std::as_bytes(std::span(places));
    const Status refused = stacks.check_planes(bad, "test");
    ASSERT_FALSE(refused.ok());
    EXPECT_THAT(refused.error().message,
                HasSubstr("test: row 1 of column \"pixels\" names plane " + std::to_string(place) + ", expected 0..0"));
  }
  BatchView bad = good;
  bad.planes[0] = bad.planes[0].first(3);
  EXPECT_THAT(stacks.check_planes(bad, "test").error().message, HasSubstr("3 bytes of planes"));
  bad.planes.emplace_back();
  EXPECT_THAT(stacks.check_planes(bad, "test").error().message, HasSubstr("planes of 2 sizes, expected 1"));
  bad.planes.clear();
  EXPECT_FALSE(stacks.check_planes(bad, "test").ok());
}

TEST(Stacks, AreMadeOfEqualPlanes) {
  const auto check = [](Stack stack) { return check_stacks({{"x", DType::kF32, {4, 6}, stack}}, "test").ok(); };
  EXPECT_TRUE(check({}));
  EXPECT_TRUE(check({3}));
  EXPECT_TRUE(check({3, 1}));
  EXPECT_TRUE(check({2, 0}));
  for (const Stack stack : {Stack{4}, Stack{3, 0}, Stack{2, 2}, Stack{2, -2}, Stack{0}, Stack{-3}}) {
    EXPECT_FALSE(check(stack)) << stack.planes << " " << stack.axis;
  }
  EXPECT_FALSE(check_stacks({{"scalar", DType::kF32, {}, {2}}}, "test").ok());
  EXPECT_EQ((TensorSpec{"x", DType::kF32, {6}, {3}}), (TensorSpec{"x", DType::kF32, {6}}))
      << "how an array is stored does not change what it is";
}

}  // namespace
}  // namespace troupe
