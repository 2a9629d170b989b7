// Extensions of tables hear of every item: a mirror that only listens knows at any time what is in its table.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <tuple>

#include <troupe/replay/table_extension.hpp>

#include <troupe/tests/replay/table_fixture.hpp>
#include <troupe/tests/replay/tables_under_test.hpp>

namespace troupe::replay {
namespace {

class Mirror final : public TableExtension {
 public:
  struct Item {
    double priority = 0;
    std::int32_t times_sampled = 0;
    std::vector<std::byte> columns;
    friend bool operator==(const Item&, const Item&) = default;
  };
  void inserted(const TableItem& item) override {
    EXPECT_TRUE(items.emplace(item.key, of(item)).second) << item.key;
    ++heard;
  }
  void sampled(const TableItem& item) override {
    ++items.at(item.key).times_sampled;
    EXPECT_EQ(items.at(item.key), of(item));
    ++heard;
  }
  void updated(const TableItem& item) override {
    items.at(item.key).priority = item.priority;
    EXPECT_EQ(items.at(item.key), of(item));
    ++heard;
  }
  void deleted(const TableItem& item) override {
    EXPECT_EQ(items.at(item.key), of(item));
    items.erase(item.key);
    ++heard;
  }

  std::map<Key, Item> items;
  int heard = 0;

 private:
  static Item of(const TableItem& item) {
    return {item.priority, item.times_sampled, {item.columns.begin(), item.columns.end()}};
  }
};

class TableExtensions : public testing::TestWithParam<std::tuple<SelectorKind, SelectorKind, int>> {};

TEST_P(TableExtensions, HearOfEveryItem) {
  const auto [sampler, remover, max_times] = GetParam();
  const auto mirror = std::make_shared<Mirror>();
  const TableOptions options = {.signature = {{"value", DType::kF64, {}}},
                                .max_items = 7,
                                .sampler = {.kind = sampler},
                                .remover = {.kind = remover},
                                .max_times_sampled = max_times,
                                .seed = 5,
                                .extensions = {mirror}};
  const auto table = Table::make(options).value();
  Rng rng(17);
  for (int i = 0; i < 400; ++i) {
    const auto what = rng.below(30);
    if (what == 29) {
      if (rng.below(4) == 0) table->reset().value();
      table->erase(std::vector<Key>{rng.below(500), rng.below(500)}).value();
    } else if (what < 10) {
      const std::vector<double> values(1 + rng.below(10), i),
          priorities(values.size(), static_cast<double>(rng.below(5)));
      BatchView batch{.signature = &options.signature, .rows = static_cast<std::int64_t>(values.size()), .columns = {}};
      batch.columns.emplace_back(std::as_bytes(std::span(values)));
      table->insert(batch, priorities).value();
    } else if (what < 20 && table->sampleable(3) == 3) {
      std::vector<double> values(3);
      std::vector<SampledItem> items(3);
      MutableBatchView batch{.signature = &options.signature, .rows = 3, .columns = {}};
      batch.columns.emplace_back(std::as_writable_bytes(std::span(values)));
      table->sample(batch, items).value();
    } else if (!mirror->items.empty()) {
      const std::vector<Key> keys = {mirror->items.begin()->first, mirror->items.rbegin()->first, 1'000'000};
      EXPECT_EQ(table->update_priorities(keys, std::vector<double>(3, static_cast<double>(rng.below(5)))).value(), 1);
    }
    ASSERT_EQ(table->info().items, static_cast<std::int64_t>(mirror->items.size()));
  }
  EXPECT_GT(mirror->heard, 400);

  const auto restored = std::make_shared<Mirror>();
  TableOptions again = options;
  again.extensions = {restored};
  const auto other = Table::make(again).value();
  other->restore(table->save()).value();
  EXPECT_EQ(restored->items, mirror->items);
  other->restore(Table::make(options).value()->save()).value();
  EXPECT_TRUE(restored->items.empty());
}

INSTANTIATE_TEST_SUITE_P(All, TableExtensions,
                         testing::Combine(testing::ValuesIn(kSelectorKinds), testing::ValuesIn(kSelectorKinds),
                                          testing::Values(0, 2)));

TEST(TableExtension, OneThatFailsToInsertIsNotHeardOf) {
  const auto mirror = std::make_shared<Mirror>();
  const TableOptions options = {.signature = {{"value", DType::kF64, {}}}, .max_items = 4, .extensions = {mirror}};
  const auto table = Table::make(options).value();
  const double value = 1;
  BatchView batch{.signature = &options.signature, .rows = 1, .columns = {}};
  batch.columns.emplace_back(std::as_bytes(std::span(&value, 1)));
  EXPECT_FALSE(table->insert(batch, std::vector<double>{-1}).ok());
  EXPECT_EQ(mirror->heard, 0);
}

}  // namespace
}  // namespace troupe::replay
