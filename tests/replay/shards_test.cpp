// Several tables against one: that they draw every item as often, with the same reported probability, is tested by
// chi-squared at fixed seeds. Bounds are the 0.1 % and 99.9 % quantiles, by Wilson and Hilferty's approximation.
#include <troupe/replay/shards.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include <troupe/core/rng.hpp>
#include <troupe/tests/replay/table_fixture.hpp>

namespace troupe::replay {
namespace {

constexpr std::int64_t kBatch = 8;

double chi_squared_quantile(double degrees, double normal_quantile) {
  const double a = 2 / (9 * degrees);
  return degrees * std::pow(1 - a + normal_quantile * std::sqrt(a), 3);
}

/// Tables with items 0 .. n-1 spread over them, of which item i has priority `priorities[i]`.
class Sharded {
 public:
  Sharded(std::vector<std::size_t> shard_of, std::vector<double> priorities, std::size_t shards,
          SelectorOptions sampler)
      : mix_(shards), draws_(shard_of.size(), 0) {
    for (std::size_t s = 0; s < shards; ++s) {
      tables_.push_back(
          make_table({.max_items = static_cast<std::int64_t>(shard_of.size()), .sampler = sampler, .seed = 100 + s}));
    }
    for (std::size_t i = 0; i < shard_of.size(); ++i) {
      EXPECT_TRUE(insert_one(*tables_[shard_of[i]], static_cast<std::int64_t>(i), priorities[i]).ok());
    }
  }

  /// Takes `batches` batches, as the learner does. `expected`: probability of each item over all tables.
  void draw(std::int64_t batches, const std::vector<double>& expected) {
    const std::vector<bool> available(tables_.size(), true);
    for (std::int64_t b = 0; b < batches; ++b) {
      for (std::size_t s = 0; s < tables_.size(); ++s) {
        mix_.observe(s, tables_[s]->info().items, tables_[s]->mass().value());
      }
      ASSERT_EQ(mix_.items(), static_cast<std::int64_t>(draws_.size()));
      const std::size_t shard = *mix_.pick(available);
      for (const Drawn& drawn : must_sample(*tables_[shard], kBatch)) {
        const auto id = static_cast<std::size_t>(drawn.id);
        ++draws_[id];
        ASSERT_NEAR(drawn.item.probability * mix_.share(shard), expected[id], 1e-12);
      }
    }
  }
  const std::vector<std::int64_t>& draws() const { return draws_; }

 private:
  std::vector<std::unique_ptr<Table>> tables_;
  ShardMix mix_;
  std::vector<std::int64_t> draws_;  ///< by item
};

constexpr std::size_t kItems = 200;
constexpr std::int64_t kBatches = 8000;

/// Items 0 .. 199 in shards of 60, 100 and 40.
std::vector<std::size_t> unequal_shards() {
  std::vector<std::size_t> shard_of(kItems);
  for (std::size_t i = 0; i < kItems; ++i) shard_of[i] = i % 10 < 3 ? 0 : i % 10 < 8 ? 1 : 2;
  return shard_of;
}

void expect_the_same_distribution(const std::vector<double>& priorities, SelectorOptions sampler,
                                  const std::vector<double>& expected) {
  Sharded three(unequal_shards(), priorities, 3, sampler);
  Sharded one(std::vector<std::size_t>(kItems, 0), priorities, 1, sampler);
  three.draw(kBatches, expected);
  one.draw(kBatches, expected);
  const auto total = static_cast<double>(kBatches * kBatch);
  double against_theory = 0, against_one = 0;
  for (std::size_t i = 0; i < kItems; ++i) {
    const auto a = static_cast<double>(three.draws()[i]);
    const auto b = static_cast<double>(one.draws()[i]);
    const double mean = total * expected[i];
    ASSERT_GT(mean, 5) << "too few draws for the statistic";
    against_theory += (a - mean) * (a - mean) / mean;
    against_one += (a - b) * (a - b) / (a + b);
  }
  // Shards take turns instead of being drawn, so up to two degrees of freedom are missing: look at both.
  EXPECT_LT(against_theory, chi_squared_quantile(kItems - 1, 3.09));
  EXPECT_GT(against_theory, chi_squared_quantile(kItems - 3, -3.09));
  EXPECT_LT(against_one, chi_squared_quantile(kItems - 1, 3.09));
  EXPECT_GT(against_one, chi_squared_quantile(kItems - 3, -3.09));
}

TEST(Shards, UniformDrawsAreThoseOfOneTable) {
  expect_the_same_distribution(std::vector<double>(kItems, 1.0), {SelectorKind::kUniform},
                               std::vector<double>(kItems, 1.0 / kItems));
}

TEST(Shards, PrioritisedDrawsAreThoseOfOneTable) {
  // Priorities that make the smallest shard the heaviest.
  const auto shard_of = unequal_shards();
  Rng rng(5);
  std::vector<double> priorities(kItems), expected(kItems);
  for (std::size_t i = 0; i < kItems; ++i) {
    priorities[i] = (0.1 + rng.uniform()) * (shard_of[i] == 2 ? 10 : 1);
    expected[i] = std::pow(priorities[i], 0.6);
  }
  const double sum = std::accumulate(expected.begin(), expected.end(), 0.0);
  for (double& p : expected) p /= sum;
  expect_the_same_distribution(priorities, {SelectorKind::kPrioritized, 0.6}, expected);
}

TEST(ShardMix, SharesAreKeptToWithinTwoBatchesAtAnyTime) {
  for (const auto& masses : std::vector<std::vector<double>>{{1, 1}, {3, 1}, {60, 100, 40}, {1, 1, 1, 1, 96}}) {
    ShardMix mix(masses.size());
    for (std::size_t s = 0; s < masses.size(); ++s) mix.observe(s, 10, masses[s]);
    std::vector<double> taken(masses.size(), 0);
    for (int n = 1; n <= 1000; ++n) {
      ++taken[*mix.pick(std::vector<bool>(masses.size(), true))];
      for (std::size_t s = 0; s < masses.size(); ++s) ASSERT_NEAR(taken[s], n * mix.share(s), 2) << n;
    }
  }
}

TEST(ShardMix, AShardThatGivesNothingHoldsNobodyUpAndIsMadeUpForWithinABound) {
  ShardMix mix(2);
  EXPECT_EQ(mix.pick({false, false}), std::nullopt);
  mix.observe(1, 100, 100);
  EXPECT_EQ(mix.share(0), 0);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(mix.pick({false, true}), 1u);
  mix.observe(0, 100, 100);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(mix.pick({false, true}), 1u);
  int in_a_row = 0;
  while (mix.pick({true, true}) == 0u) ASSERT_LT(++in_a_row, 1000);
  EXPECT_GT(in_a_row, 1);
  EXPECT_LE(in_a_row, 2 * ShardMix::kMostDeficit);
}

TEST(ShardMix, AMixRestoredFromItsShardsGoesOnTheSame) {
  ShardMix mix(3);
  for (std::size_t s = 0; s < 3; ++s) mix.observe(s, 10, static_cast<double>(s + 1));
  for (int i = 0; i < 17; ++i) mix.pick({true, true, true});
  ShardMix restored(3);
  for (std::size_t s = 0; s < 3; ++s) restored.shards()[s] = mix.shards()[s];
  for (int i = 0; i < 50; ++i) EXPECT_EQ(mix.pick({true, true, true}), restored.pick({true, true, true}));
}

TEST(ShardOptions, LimitsAddUpToTheWhole) {
  TableOptions whole;
  whole.name = "replay";
  whole.max_items = 1001;
  whole.max_bytes = 10'000;
  whole.limiter = sample_to_insert_ratio(4, 103, 412).value();
  std::int64_t items = 0, bytes = 0, least = 0;
  double min_diff = 0, max_diff = 0;
  for (std::int64_t i = 0; i < 3; ++i) {
    const TableOptions shard = shard_options(whole, i, 3);
    EXPECT_EQ(shard.name, "replay-" + std::to_string(i));
    items += shard.max_items;
    bytes += shard.max_bytes;
    least += shard.limiter.min_size_to_sample;
    min_diff += shard.limiter.min_diff;
    max_diff += shard.limiter.max_diff;
    EXPECT_NEAR(shard.limiter.max_diff - shard.limiter.min_diff, 2 * 412.0 / 3, 1e-9);
    EXPECT_TRUE(RateLimiter::make(shard.limiter).ok());
  }
  EXPECT_EQ(items, whole.max_items);
  EXPECT_EQ(least, 103);
  EXPECT_EQ(bytes, 9'999);
  EXPECT_NEAR(min_diff, whole.limiter.min_diff, 1e-9);
  EXPECT_NEAR(max_diff, whole.limiter.max_diff, 1e-9);
  EXPECT_EQ(shard_options(whole, 0, 1).name, "replay");
}

TEST(ShardOptions, LimitersWithoutAWindowStayOpen) {
  TableOptions whole;
  whole.max_items = 10;
  whole.limiter = {.min_size_to_sample = 4};
  const TableOptions shard = shard_options(whole, 1, 2);
  auto limiter = RateLimiter::make(shard.limiter).value();
  EXPECT_TRUE(limiter.can_insert(1'000'000));
  limiter.count_inserts(2);
  EXPECT_TRUE(limiter.can_sample(1'000'000));
}

}  // namespace
}  // namespace troupe::replay
