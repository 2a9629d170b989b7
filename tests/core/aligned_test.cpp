#include <troupe/core/aligned.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <new>
#include <span>

namespace troupe {
namespace {

TEST(Aligned, IsZeroAndOnACacheLineWhateverItsSize) {
  for (const std::size_t bytes : {0UL, 1UL, 63UL, 4096UL, (1UL << 20) - 1, 1UL << 20, (2UL << 20) + 1, 40UL << 20}) {
    for (int again = 0; again < 2; ++again) {  // the second one may be the memory of the first
      const auto made = make_aligned<std::byte>(bytes);
      ASSERT_NE(made.get(), nullptr) << bytes;
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(made.get()) % 64, 0) << bytes;
      const std::span all(made.get(), bytes);
      EXPECT_EQ(std::ranges::count(all, std::byte{0}), std::ptrdiff_t(bytes)) << bytes;
      std::ranges::fill(all, std::byte{0xff});
    }
  }
}

TEST(Aligned, LargeArraysBeginOnAHugePage) {
  const auto made = make_aligned<float>(1UL << 20);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(made.get()) % (2UL << 20), 0);
}

TEST(Aligned, ThrowsWhereThereIsNoMemory) {
  EXPECT_THROW((void)make_aligned<std::byte>(std::size_t{1} << 62), std::bad_alloc);
}

}  // namespace
}  // namespace troupe
