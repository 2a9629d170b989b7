// What every table promises, one promise a test.
#include <troupe/replay/table.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include <troupe/tests/replay/tables_under_test.hpp>

namespace troupe::replay {
namespace {

TEST_P(EveryTable, GivesBackWhatWasInserted) {
  auto table = make({.max_items = 100});
  const auto first = table->insert(TestBatch({10, 11, 12}).view(), {});
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(*insert_one(*table, 13, 2.5), *first + 3);
  std::map<Key, std::int64_t> ids;
  for (const Drawn& drawn : must_sample(*table, 200)) {
    EXPECT_EQ(drawn.id, static_cast<std::int64_t>(drawn.item.key - *first) + 10);
    EXPECT_EQ(drawn.item.priority, drawn.id == 13 ? 2.5 : 1.0);
    EXPECT_EQ(drawn.item.probability, 0.25);
    EXPECT_EQ(drawn.item.table_items, 4);
    ids[drawn.item.key] = drawn.id;
  }
  EXPECT_EQ(ids.size(), 4u);
}

TEST(HostTable, DrawsWithoutRowsWhatItSamples) {
  for (const std::int64_t most : {0, 3}) {
    for (const SelectorKind kind : {SelectorKind::kUniform, SelectorKind::kPrioritized, SelectorKind::kFifo}) {
      const TableOptions options{
          .signature = test_signature(), .max_items = 40, .sampler = {kind}, .max_times_sampled = most};
      const auto drawn = make_table(Where::kHost, options), sampled = make_table(Where::kHost, options);
      for (std::int64_t id = 0; id < 30; ++id) {
        for (const auto& table : {drawn.get(), sampled.get()}) ASSERT_TRUE(insert_one(*table, id, 1.0 + id).ok());
      }
      std::vector<SampledItem> items(16);
      for (int times = 0; times < 3; ++times) {
        ASSERT_TRUE(drawn->draw(items).ok());
        const auto expected = must_sample(*sampled, 16);
        for (std::size_t i = 0; i < items.size(); ++i) {
          EXPECT_EQ(items[i].key, expected[i].item.key);
          EXPECT_EQ(items[i].probability, expected[i].item.probability);
          EXPECT_EQ(items[i].times_sampled, expected[i].item.times_sampled);
        }
      }
      EXPECT_EQ(drawn->save(), sampled->save());
    }
  }
  EXPECT_EQ(make_table(Where::kHost, {.max_items = 3})->draw({}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(make_table(Where::kGpu, {.max_items = 3})->draw({}).error().code, Code::kInvalidArgument);
}

TEST_P(EveryTable, EvictsTheOldestWhenFull) {
  auto table = make({.max_items = 3});
  for (std::int64_t id = 0; id < 10; ++id) ASSERT_TRUE(insert_one(*table, id).ok());
  EXPECT_EQ(table->info().items, 3);
  EXPECT_EQ(table->info().inserts, 10);
  EXPECT_EQ(table->info().evictions, 7);
  std::set<std::int64_t> ids;
  for (const Drawn& drawn : must_sample(*table, 100)) ids.insert(drawn.id);
  EXPECT_EQ(ids, (std::set<std::int64_t>{7, 8, 9}));
}

TEST_P(EveryTable, TakesABatchLargerThanItself) {
  auto table = make({.max_items = 2});
  ASSERT_TRUE(table->insert(TestBatch({0, 1, 2, 3, 4}).view(), {}).ok());
  std::set<std::int64_t> ids;
  for (const Drawn& drawn : must_sample(*table, 50)) ids.insert(drawn.id);
  EXPECT_EQ(ids, (std::set<std::int64_t>{3, 4}));
}

TEST_P(EveryTable, KeepsWithinItsBytes) {
  auto table = make({.max_items = 1000, .max_bytes = 1000});
  for (std::int64_t id = 0; id < 50; ++id) {
    ASSERT_TRUE(insert_one(*table, id).ok());
    ASSERT_LE(table->info().bytes, 1000);
  }
  // Header and columns are 24 + 37 bytes, so at least 1000 / 128 rows must fit.
  EXPECT_GE(table->info().items, 7);
  EXPECT_LT(table->info().items, 50);
  const auto refused = try_table(GetParam(), {.signature = test_signature(), .max_items = 10, .max_bytes = 10});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("max_bytes 10"), std::string::npos) << refused.error().message;
}

TEST_P(EveryTable, UpdatesPrioritiesAndCountsUnknownKeys) {
  auto table = make({.max_items = 4, .sampler = {.kind = SelectorKind::kPrioritized}});
  for (std::int64_t id = 0; id < 6; ++id) ASSERT_TRUE(insert_one(*table, id).ok());
  const std::vector<Key> keys{0, 1, 2, 3, 4, 5, 6, ~Key{0}};
  const std::vector<double> priorities{9, 9, 0, 3, 0, 1, 9, 9};
  EXPECT_EQ(*table->update_priorities(keys, priorities), 4);  // 0 and 1 are gone, 6 and the last never were
  int threes = 0;
  for (const Drawn& drawn : must_sample(*table, 4000)) {
    ASSERT_TRUE(drawn.id == 3 || drawn.id == 5) << drawn.id;
    EXPECT_EQ(drawn.item.probability, drawn.id == 3 ? 0.75 : 0.25);
    threes += drawn.id == 3;
  }
  EXPECT_NEAR(threes, 3000, 137);  // 5 standard deviations of a binomial
}

TEST_P(EveryTable, RefusesBadRowsAndStaysAsItWas) {
  auto table = make({.name = "main", .max_items = 4, .sampler = {.kind = SelectorKind::kPrioritized}});
  ASSERT_TRUE(insert_one(*table, 1).ok());
  const auto before = table->save();
  const TestBatch two({1, 2});
  for (double bad : {-1.0, static_cast<double>(NAN), static_cast<double>(INFINITY), 2 * kMaxPriority}) {
    const std::vector<double> priorities{1.0, bad};
    const auto result = table->insert(two.view(), priorities);
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, Code::kInvalidArgument);
    EXPECT_NE(result.error().message.find("row 1"), std::string::npos) << result.error().message;
    const std::vector<Key> keys{0, 0};
    EXPECT_EQ(table->update_priorities(keys, priorities).error().code, Code::kInvalidArgument);
  }
  const std::vector<double> three(3, 1.0);
  EXPECT_EQ(table->insert(two.view(), three).error().code, Code::kInvalidArgument);
  BatchView cut = two.view();
  cut.columns[1] = cut.columns[1].first(17);
  EXPECT_NE(table->insert(cut, {}).error().message.find("column \"pixels\" has 17 bytes, expected 18"),
            std::string::npos);
  cut = two.view();
  cut.columns.pop_back();
  EXPECT_EQ(table->insert(cut, {}).error().code, Code::kShapeMismatch);
  BatchView none = TestBatch({}).view();
  none.signature = &table->options().signature;
  EXPECT_EQ(table->insert(none, {}).error().code, Code::kInvalidArgument);
  BatchBuffer other({{"observation", DType::kF32, {6}}}, 1);
  EXPECT_EQ(table->insert(other.view(), {}).error().code, Code::kShapeMismatch);
  std::vector<SampledItem> items(1);
  EXPECT_EQ(table->sample(other.mutable_view(), items).error().code, Code::kShapeMismatch);
  BatchBuffer good(test_signature(), 2);
  EXPECT_EQ(table->sample(good.mutable_view(), items).error().code, Code::kInvalidArgument);
  EXPECT_EQ(table->save(), before);
}

TEST_P(EveryTable, WaitsForItsLimiterWithAReason) {
  auto table = make({.name = "main", .max_items = 100, .limiter = std::move(sample_to_insert_ratio(4, 2, 8)).value()});
  EXPECT_EQ(table->sampleable(1), 0);
  EXPECT_EQ(sample(*table, 1).error().message,
            "table \"main\": sample of 1 waits: 2 more items (0 of min_size_to_sample 2)");
  for (std::int64_t id = 0; id < 4; ++id) ASSERT_TRUE(insert_one(*table, id).ok());
  const auto refused = insert_one(*table, 4);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  EXPECT_EQ(refused.error().message, table->insert_blocker(1));
  EXPECT_EQ(table->insert_blocker(1),
            "table \"main\": insert of 1 waits: 4 more samples (error would be 20, max_diff 16)");
  EXPECT_EQ(table->sampleable(100), 16);
  EXPECT_EQ(sample(*table, 17).error().code, Code::kUnavailable);
  EXPECT_EQ(table->info().samples, 0) << "all or nothing";
  ASSERT_TRUE(sample(*table, 16).ok());
  EXPECT_EQ(table->insertable(100), 4);
}

TEST_P(EveryTable, RefusesOptionsThatCannotWork) {
  const Signature signature = test_signature();
  Signature twice = signature;
  twice.push_back(signature[0]);
  for (const TableOptions& options :
       {TableOptions{.max_items = 1}, TableOptions{.signature = signature},
        TableOptions{.signature = twice, .max_items = 1},
        TableOptions{.signature = signature, .max_items = 1, .max_bytes = -1},
        TableOptions{.signature = signature, .max_items = 5, .limiter = {.min_size_to_sample = 6}},
        TableOptions{.signature = signature, .max_items = std::int64_t{1} << 32},
        TableOptions{.signature = signature, .max_items = 1, .max_times_sampled = -1},
        TableOptions{.signature = signature,
        .max_items = 1,
        .sampler = {.kind = SelectorKind::kPrioritized, .priority_exponent = -1}}}) {
    const auto result = try_table(GetParam(), options);
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, Code::kInvalidArgument);
  }
}

TEST_P(EveryTable, RepeatsItselfForASeedAndOnlyForThat) {
  auto run = [this](std::uint64_t seed) {
    auto table = make({.max_items = 50, .seed = seed});
    for (std::int64_t id = 0; id < 80; ++id) EXPECT_TRUE(insert_one(*table, id).ok());
    std::vector<std::int64_t> ids;
    for (const Drawn& drawn : must_sample(*table, 64)) ids.push_back(drawn.id);
    return ids;
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

INSTANTIATE_TEST_SUITE_P(Where, EveryTable, testing::ValuesIn(kEverywhere), table_name);

// ---- what a table on a GPU refuses (gpu_table_test.cpp) ----

TEST(HostTable, DropsItemsAfterMaxTimesSampled) {
  auto table = make_table({.max_items = 10, .max_times_sampled = 2});
  ASSERT_TRUE(table->insert(TestBatch({0, 1, 2}).view(), {}).ok());
  EXPECT_EQ(table->sampleable(100), 6);
  EXPECT_EQ(table->sample_blocker(7),
            "table \"replay\": sample of 7 waits: its 3 items may be sampled 6 more times "
            "(max_times_sampled 2)");
  EXPECT_EQ(sample(*table, 7).error().code, Code::kUnavailable);
  std::map<std::int64_t, int> times;
  for (const Drawn& drawn : must_sample(*table, 6)) EXPECT_EQ(drawn.item.times_sampled, ++times[drawn.id]);
  EXPECT_EQ(times, (std::map<std::int64_t, int>{{0, 2}, {1, 2}, {2, 2}}));
  EXPECT_EQ(table->info().items, 0);
  EXPECT_EQ(table->info().evictions, 3);
  EXPECT_EQ(table->sampleable(1), 0);
}

TEST(HostTable, ServesAsAQueue) {
  auto table = make_table(
      {.max_items = 3, .sampler = {.kind = SelectorKind::kFifo}, .limiter = queue(3), .max_times_sampled = 1});
  std::int64_t in = 0;
  std::int64_t out = 0;
  for (int round = 0; round < 50; ++round) {
    while (table->insertable(1) == 1) ASSERT_TRUE(insert_one(*table, in++).ok());
    EXPECT_EQ(table->info().items, 3);
    EXPECT_FALSE(insert_one(*table, 99).ok());
    for (const Drawn& drawn : must_sample(*table, 1 + round % 3)) EXPECT_EQ(drawn.id, out++);
  }
}

}  // namespace
}  // namespace troupe::replay
