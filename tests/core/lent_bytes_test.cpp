#include <troupe/core/lent_bytes.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace troupe {
namespace {

std::vector<std::byte> seen(const LentBytes& lent) {
  return lent.with([](std::span<const std::byte> bytes) { return std::vector<std::byte>(bytes.begin(), bytes.end()); });
}

TEST(LentBytes, AreTheOwnersUntilTheyAreTakenBack) {
  std::vector<std::byte> values(1000, std::byte{1});
  LentBytes lent(values);
  EXPECT_EQ(lent.size(), 1000u);
  EXPECT_TRUE(lent.with([&](std::span<const std::byte> bytes) { return bytes.data() == values.data(); }));
  lent.take_back();
  std::ranges::fill(values, std::byte{2});
  EXPECT_EQ(seen(lent), std::vector<std::byte>(1000, std::byte{1}));
  lent.take_back();  // once more changes nothing
  values = {};
  EXPECT_EQ(seen(lent), std::vector<std::byte>(1000, std::byte{1}));
  EXPECT_EQ(lent.size(), 1000u);
}

TEST(LentBytes, MayBeNone) {
  LentBytes lent({});
  lent.take_back();
  EXPECT_TRUE(seen(lent).empty());
}

TEST(LentBytes, AreWholeForWhoReadsThemMeanwhile) {
  for (int turn = 0; turn < 200; ++turn) {
    std::vector<std::byte> values(5000, std::byte{1});
    LentBytes lent(values);
    std::atomic<bool> reads = false;
    std::atomic<bool> over = false;
    std::thread reader([&] {
      for (reads = true; !over;) EXPECT_EQ(seen(lent), std::vector<std::byte>(5000, std::byte{1}));
    });
    while (!reads) std::this_thread::yield();
    lent.take_back();
    std::ranges::fill(values, std::byte{2});
    over = true;
    reader.join();
  }
}

}  // namespace
}  // namespace troupe
