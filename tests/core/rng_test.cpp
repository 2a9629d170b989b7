#include <troupe/core/rng.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace troupe {
namespace {

TEST(Rng, SavedStateContinuesTheSequence) {
  Rng rng(7);
  for (int i = 0; i < 10; ++i) rng.normal();
  Rng restored(0);
  restored.set_state(rng.state());
  for (int i = 0; i < 10; ++i) EXPECT_EQ(rng.normal(), restored.normal());
}

TEST(Rng, BelowCoversItsRangeEvenly) {
  Rng rng(1);
  std::array<int, 7> counts{};
  constexpr int kDraws = 70000;
  for (int i = 0; i < kDraws; ++i) ++counts[rng.below(counts.size())];
  // Five standard deviations of a binomial with p = 1/7.
  for (int count : counts) EXPECT_NEAR(count, kDraws / 7.0, 5 * std::sqrt(kDraws * 6.0 / 49.0));
}

TEST(Rng, NormalHasMeanZeroAndVarianceOne) {
  Rng rng(2);
  double sum = 0, squares = 0;
  constexpr int kDraws = 200000;
  for (int i = 0; i < kDraws; ++i) {
    const double x = rng.normal();
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / kDraws, 0, 5 / std::sqrt(kDraws));
  EXPECT_NEAR(squares / kDraws, 1, 5 * std::sqrt(2.0 / kDraws));
}

TEST(DeriveSeed, DiffersByRunRoleAndIndex) {
  std::set<std::uint64_t> seeds;
  for (std::uint64_t run : {0, 1}) {
    for (const char* role : {"actor", "learner", ""}) {
      for (std::uint64_t index : {0, 1, 2}) seeds.insert(derive_seed(run, role, index));
    }
  }
  EXPECT_EQ(seeds.size(), 18u);
}

}  // namespace
}  // namespace troupe
