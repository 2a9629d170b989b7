#include <troupe/core/detail/slots.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include <troupe/core/rng.hpp>

namespace troupe {
namespace {

TEST(SlotRuns, NeverOverlapAndMergeWhenTheyComeBack) {
  constexpr std::size_t kCount = 200;
  SlotRuns slots(kCount);
  std::vector<bool> taken(kCount);
  std::vector<std::pair<std::size_t, std::size_t>> runs;
  Rng rng(7);
  const auto drop = [&](std::size_t index) {
    const auto [first, count] = runs[index];
    std::fill_n(taken.begin() + static_cast<std::ptrdiff_t>(first), count, false);
    slots.give_back(first, count);
    runs.erase(runs.begin() + static_cast<std::ptrdiff_t>(index));
  };
  for (int i = 0; i < 5000; ++i) {
    const std::size_t count = 1 + rng.below(30);
    if (const auto first = slots.take(count)) {
      ASSERT_LE(*first + count, kCount);
      for (std::size_t slot = *first; slot < *first + count; ++slot) {
        ASSERT_FALSE(taken[slot]) << slot;
        taken[slot] = true;
      }
      runs.emplace_back(*first, count);
    } else {
      ASSERT_FALSE(runs.empty());
    }
    while (runs.size() > rng.below(14)) drop(rng.below(runs.size()));
  }
  while (!runs.empty()) drop(0);
  EXPECT_EQ(slots.take(kCount), 0);
  EXPECT_FALSE(slots.take(1));
}

TEST(SlotRuns, ScatteredShortRunsLeaveRoomForLongOnes) {
  SlotRuns slots(4096);  // 64 MiB
  std::vector<std::size_t> shorts;
  for (int round = 0; round < 3; ++round) {
    const auto long_run = slots.take(1024);
    ASSERT_TRUE(long_run) << round;
    for (int i = 0; i < 300; ++i) shorts.push_back(slots.take(1).value());
    slots.give_back(*long_run, 1024);
  }
  for (std::size_t i = 0; i < shorts.size(); i += 2) slots.give_back(shorts[i], 1);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(slots.take(1024)) << i;
}

}  // namespace
}  // namespace troupe
