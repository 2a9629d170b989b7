// Reverb's rules one by one, then properties over random sequences of admitted operations.
#include <troupe/replay/rate_limiter.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include <troupe/core/rng.hpp>

namespace troupe::replay {
namespace {

RateLimiter make(const RateLimiterOptions& options) { return std::move(RateLimiter::make(options)).value(); }

TEST(RateLimiter, BlocksSamplesUntilMinSizeIsReached) {
  RateLimiter limiter = make({.min_size_to_sample = 3});
  limiter.count_inserts(2);
  EXPECT_FALSE(limiter.can_sample(1));
  EXPECT_EQ(limiter.sample_blocker(256), "sample of 256 waits: 1 more items (2 of min_size_to_sample 3)");
  limiter.count_inserts(1);
  EXPECT_TRUE(limiter.can_sample(1000000));
  EXPECT_TRUE(limiter.can_insert(1000000));
  EXPECT_EQ(limiter.sample_blocker(256), "");
  EXPECT_EQ(limiter.insert_blocker(1), "");
  limiter.count_deletes(1);  // back below the minimum
  EXPECT_FALSE(limiter.can_sample(1));
}

TEST(RateLimiter, NamesTheDeficitOfBothSides) {
  RateLimiter limiter = make(std::move(sample_to_insert_ratio(8, 100, 80)).value());  // error within 720..880
  EXPECT_EQ(limiter.insertable(1000), 110);                                           // (880 / 8)
  limiter.count_inserts(110);
  EXPECT_EQ(limiter.insert_blocker(1), "insert of 1 waits: 8 more samples (error would be 888, max_diff 880)");
  EXPECT_EQ(limiter.sampleable(1000), 160);
  limiter.count_samples(160);
  EXPECT_EQ(limiter.sample_blocker(1), "sample of 1 waits: 1 more inserts (error would be 719, min_diff 720)");
  EXPECT_EQ(limiter.sample_blocker(17), "sample of 17 waits: 3 more inserts (error would be 703, min_diff 720)");
  EXPECT_TRUE(limiter.can_insert(20));
  EXPECT_FALSE(limiter.can_insert(21));
}

TEST(RateLimiter, LetsInsertsPassUntilMinSizeWhateverTheWindow) {
  RateLimiter limiter = make({.samples_per_insert = 4, .min_size_to_sample = 10, .min_diff = 0, .max_diff = 8});
  EXPECT_EQ(limiter.insertable(100), 10);
  limiter.count_inserts(10);
  EXPECT_FALSE(limiter.can_insert(1));
  EXPECT_EQ(limiter.sampleable(100), 40);
}

TEST(RateLimiter, QueueHoldsAtMostItsSize) {
  RateLimiter limiter = make(queue(2));
  EXPECT_FALSE(limiter.can_sample(1));
  EXPECT_EQ(limiter.insertable(5), 2);
  limiter.count_inserts(2);
  EXPECT_FALSE(limiter.can_insert(1));
  EXPECT_EQ(limiter.sampleable(5), 2);
  limiter.count_samples(1);
  limiter.count_deletes(1);
  EXPECT_EQ(limiter.insertable(5), 1);
}

TEST(RateLimiter, RefusesOptionsThatCannotWork) {
  for (const RateLimiterOptions& options :
       {RateLimiterOptions{.samples_per_insert = 0}, RateLimiterOptions{.samples_per_insert = NAN},
        RateLimiterOptions{.min_size_to_sample = 0}, RateLimiterOptions{.min_diff = 2, .max_diff = 1},
        RateLimiterOptions{.min_diff = 5, .max_diff = 1.5}}) {
    const auto result = RateLimiter::make(options);
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, Code::kInvalidArgument);
  }
  EXPECT_FALSE(sample_to_insert_ratio(8, 100, 7.9).ok());
  EXPECT_FALSE(sample_to_insert_ratio(0.5, 100, 0.9).ok());
  EXPECT_FALSE(sample_to_insert_ratio(8, 0, 100).ok());
}

TEST(RateLimiter, CountsSurviveARestoreAndImpossibleOnesAreRefused) {
  RateLimiter limiter = make({.min_size_to_sample = 1});
  const RateLimiterCounts counts{.inserts = 10, .samples = 5, .deletes = 3};
  ASSERT_TRUE(limiter.set_counts(counts).ok());
  EXPECT_EQ(limiter.counts(), counts);
  for (const RateLimiterCounts& wrong : {RateLimiterCounts{.inserts = -1}, RateLimiterCounts{.samples = -1},
                                         RateLimiterCounts{.inserts = 2, .deletes = 3}}) {
    EXPECT_EQ(limiter.set_counts(wrong).error().code, Code::kCorrupt);
    EXPECT_EQ(limiter.counts(), counts);
  }
}

// Greedy random inserts and samples: the error never leaves its window, blockers are exact, somebody can always move.
TEST(RateLimiterProperties, ErrorStaysInItsWindowAndSomebodyCanMove) {
  Rng rng(7);
  for (int run = 0; run < 60; ++run) {
    const double ratio = std::exp(rng.uniform() * 6 - 2);  // 0.13..55
    const auto minimum = static_cast<std::int64_t>(1 + rng.below(50));
    const auto insert_rows = static_cast<std::int64_t>(1 + rng.below(4));
    const auto sample_rows = static_cast<std::int64_t>(1 + rng.below(64));
    const double per_insert = ratio * static_cast<double>(insert_rows);
    const double buffer =
        std::max({1.0, per_insert, (static_cast<double>(sample_rows) + per_insert) / 2}) * (1 + rng.uniform());
    const RateLimiterOptions options = std::move(sample_to_insert_ratio(ratio, minimum, buffer)).value();
    ASSERT_TRUE(check_batch_sizes(options, insert_rows, sample_rows).ok());
    RateLimiter limiter = make(options);
    for (int step = 0; step < 3000; ++step) {
      const bool may_insert = limiter.can_insert(insert_rows);
      const bool may_sample = limiter.can_sample(sample_rows);
      ASSERT_TRUE(may_insert || may_sample) << "run " << run << " step " << step;
      ASSERT_EQ(may_insert, limiter.insert_blocker(insert_rows).empty());
      ASSERT_EQ(may_sample, limiter.sample_blocker(sample_rows).empty());
      ASSERT_EQ(may_insert, limiter.insertable(insert_rows) == insert_rows);
      ASSERT_EQ(may_sample, limiter.sampleable(sample_rows) == sample_rows);
      if (may_insert && (!may_sample || rng.below(2) == 0)) {
        limiter.count_inserts(insert_rows);
      } else {
        limiter.count_samples(sample_rows);
      }
      const RateLimiterCounts& counts = limiter.counts();
      const double error = static_cast<double>(counts.inserts) * ratio - static_cast<double>(counts.samples);
      if (counts.inserts > minimum) {
        ASSERT_LE(error, options.max_diff);
      }
      if (counts.samples > 0) {
        ASSERT_GE(error, options.min_diff);
      }
    }
    // Long runs therefore have the asked ratio, up to the window.
    const RateLimiterCounts& counts = limiter.counts();
    ASSERT_NEAR(static_cast<double>(counts.samples), ratio * static_cast<double>(counts.inserts - minimum),
                buffer + 1e-6);
  }
}

// The named deficit is enough, and one less is not.
TEST(RateLimiterProperties, BlockersNameTheExactDeficit) {
  Rng rng(8);
  auto number_after = [](const std::string& text) { return std::stoll(text.substr(text.find("waits: ") + 7)); };
  for (int run = 0; run < 500; ++run) {
    const double ratio = std::exp(rng.uniform() * 6 - 2);
    const RateLimiterOptions options = std::move(sample_to_insert_ratio(ratio, 5, 60)).value();
    RateLimiter limiter = make(options);
    limiter.count_inserts(5);
    limiter.count_inserts(limiter.insertable(1000000));
    const std::int64_t samples = number_after(limiter.insert_blocker(2));
    RateLimiter short_by_one = limiter;
    short_by_one.count_samples(samples - 1);
    EXPECT_FALSE(short_by_one.can_insert(2));
    limiter.count_samples(samples);
    EXPECT_TRUE(limiter.can_insert(2));

    limiter.count_samples(limiter.sampleable(1000000));
    const std::int64_t inserts = number_after(limiter.sample_blocker(32));
    short_by_one = limiter;
    short_by_one.count_inserts(inserts - 1);
    EXPECT_FALSE(short_by_one.can_sample(32));
    limiter.count_inserts(inserts);
    EXPECT_TRUE(limiter.can_sample(32));
  }
}

TEST(RateLimiter, RefusesAWindowInWhichBatchesCouldBlockEachOther) {
  const RateLimiterOptions options = std::move(sample_to_insert_ratio(32, 10, 100)).value();  // 200 wide
  EXPECT_TRUE(check_batch_sizes(options, 1, 168).ok());
  const Status refused = check_batch_sizes(options, 1, 169);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("is 200"), std::string::npos) << refused.error().message;
  EXPECT_TRUE(check_batch_sizes(options, 4, 1).ok());  // 13 items are 416, max_diff 420
  EXPECT_FALSE(check_batch_sizes(options, 5, 1).ok());
}

}  // namespace
}  // namespace troupe::replay
