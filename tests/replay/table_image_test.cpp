// Saving and restoring: the restored table goes on bit for bit, and a damaged image changes nothing.
#include <troupe/replay/table_image.hpp>

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include <troupe/tests/replay/tables_under_test.hpp>

namespace troupe::replay {
namespace {

TableOptions options_of(SelectorKind sampler, SelectorKind remover, std::int64_t max_times_sampled) {
  return {.max_items = 40,
          .sampler = {.kind = sampler, .priority_exponent = 0.6},
          .remover = {.kind = remover, .priority_exponent = 0.6},
          .limiter = std::move(sample_to_insert_ratio(4, 5, 400)).value(),
          .max_times_sampled = max_times_sampled,
          .seed = 9};
}

/// A few hundred operations that depend on `seed` alone, and all that was drawn.
std::vector<double> live(Table& table, std::uint64_t seed, int operations) {
  std::vector<double> trace;
  Rng rng(seed);
  for (int i = 0; i < operations; ++i) {
    if (rng.below(2) == 0 && table.insertable(2) == 2) {
      const std::vector<double> priorities{rng.uniform(), rng.uniform()};
      const auto id = static_cast<std::int64_t>(rng.below(1000));
      trace.push_back(static_cast<double>(*table.insert(TestBatch({id, id + 1}).view(), priorities)));
    } else if (table.sampleable(8) == 8) {
      std::vector<Key> keys;
      std::vector<double> priorities;
      for (const Drawn& drawn : must_sample(table, 8)) {
        trace.insert(trace.end(), {static_cast<double>(drawn.id), static_cast<double>(drawn.item.key),
                                   drawn.item.probability, static_cast<double>(drawn.item.times_sampled)});
        keys.push_back(drawn.item.key);
        priorities.push_back(rng.uniform());
      }
      EXPECT_TRUE(table.update_priorities(keys, priorities).ok());
    }
  }
  return trace;
}

class TableImage : public EveryTable {};

TEST_P(TableImage, RestoredTableGoesOnBitForBit) {
  for (SelectorKind sampler : {SelectorKind::kUniform, SelectorKind::kPrioritized, SelectorKind::kLifo}) {
    for (SelectorKind remover : {SelectorKind::kFifo, SelectorKind::kPrioritized}) {
      for (std::int64_t times : {0, 3}) {
        if (!exists(GetParam(), options_of(sampler, remover, times))) continue;
        auto original = make(options_of(sampler, remover, times));
        ASSERT_FALSE(live(*original, 1, 300).empty());
        const auto image = original->save();
        TableOptions other_seed = options_of(sampler, remover, times);
        other_seed.seed = 77;
        auto restored = make(other_seed);
        live(*restored, 2, 50);  // to be replaced, all of it
        const Status status = restored->restore(image);
        ASSERT_TRUE(status.ok()) << status.error().message;
        ASSERT_EQ(restored->save(), image);
        const auto trace = live(*original, 3, 300);
        ASSERT_FALSE(trace.empty());
        ASSERT_EQ(live(*restored, 3, 300), trace);
        ASSERT_EQ(restored->save(), original->save());
      }
    }
  }
}

TEST(HostTableImage, KnowsOfItemsThatWereErasedAndOfResets) {
  const auto small = [](std::int64_t times) {
    return make_table({.max_items = 6, .sampler = {.kind = SelectorKind::kFifo}, .max_times_sampled = times});
  };
  for (const std::int64_t times : {0, 3}) {
    auto table = small(times), other = small(times);
    for (std::int64_t id = 0; id < 8; ++id) insert_one(*table, id).value();
    table->erase(std::vector<Key>{2, 5}).value();
    const auto gaps = table->save();
    other->restore(gaps).value();
    EXPECT_EQ(other->save(), gaps);
    for (auto* const each : {table.get(), other.get()}) {
      for (std::int64_t id = 8; id < 13; ++id) insert_one(*each, id).value();  // over its capacity
      EXPECT_EQ(*each->erase(std::vector<Key>{6, 7}), 1);                      // the former has left
      EXPECT_EQ(must_sample(*each, 1)[0].id, 8);
    }
    EXPECT_EQ(other->save(), table->save());
    table->reset().value();
    insert_one(*table, 20).value();
    auto image = table->save();
    other->restore(image).value();
    EXPECT_EQ(other->save(), image);
    EXPECT_EQ(insert_one(*other, 21).value(), 14U);
    EXPECT_EQ(other->info().inserts, 2);
    // What only such an image says is checked like the rest of it.
    const auto before = other->save();
    image[0].resize(image[0].size() - 1);
    EXPECT_EQ(other->restore(image).error().code, Code::kCorrupt);
    image[0].push_back(std::byte{2});
    EXPECT_EQ(other->restore(image).error().code, Code::kCorrupt);
    EXPECT_EQ(other->save(), before);
  }
}

/// All items of `table`, by key, as a journal would give them back.
struct Rows {
  Key first = 0;
  std::vector<std::int64_t> ids;
};
Rows rows_of(const Table& table) {
  const TableInfo info = table.info();
  Rows rows{static_cast<Key>(info.inserts - info.items), {}};
  BatchBuffer row(test_signature(), 1);
  for (std::int64_t i = 0; i < info.items; ++i) {
    double priority = 0;
    table.read(rows.first + static_cast<Key>(i), row.mutable_view(), {&priority, 1}).value();
    rows.ids.push_back(TestBatch::id(row.view(), 0));
  }
  return rows;
}

RowSource source(Key first, std::vector<std::int64_t> ids) {
  return [=](const RowTaker& take) { return ids.empty() ? Status{} : take(first, TestBatch(ids).view()); };
}

TEST_P(TableImage, ItemsAloneAndTheirRowsGoOnBitForBit) {
  for (SelectorKind sampler : {SelectorKind::kUniform, SelectorKind::kPrioritized, SelectorKind::kLifo}) {
    for (const int operations : {20, 300}) {  // half full; full
      auto original = make(options_of(sampler, SelectorKind::kFifo, 0));
      ASSERT_FALSE(live(*original, 1, operations).empty());
      const Rows rows = rows_of(*original);
      auto restored = make(options_of(sampler, SelectorKind::kFifo, 0));
      const auto status = restored->restore_items(original->save_items(), [&](const RowTaker& take) -> Status {
        // Older rows, too, as a journal has them, and in pieces.
        for (Key key = rows.first - std::min<Key>(rows.first, 7); key < rows.first; ++key) {
          TROUPE_TRY(take(key, TestBatch({-1}).view()));
        }
        const auto third = static_cast<std::ptrdiff_t>(rows.ids.size() / 3);
        TROUPE_TRY(take(rows.first, TestBatch({rows.ids.begin(), rows.ids.begin() + third}).view()));
        return take(rows.first + static_cast<Key>(third), TestBatch({rows.ids.begin() + third, rows.ids.end()}).view());
      });
      ASSERT_TRUE(status.ok()) << status.error().message;
      ASSERT_EQ(restored->save(), original->save());
      ASSERT_EQ(live(*restored, 3, 300), live(*original, 3, 300));
    }
  }
}

TEST_P(TableImage, ItemsWithoutRowsAreGone) {
  const TableOptions options = options_of(SelectorKind::kPrioritized, SelectorKind::kFifo, 0);
  auto original = make(options);
  live(*original, 1, 300);
  const Rows rows = rows_of(*original);
  ASSERT_EQ(rows.ids.size(), 40u);
  auto table = make(options);
  live(*table, 2, 50);
  const auto before = table->save();
  EXPECT_EQ(table->restore_items(original->save(), source(0, {})).error().code, Code::kCorrupt) << "another image";
  EXPECT_EQ(
      table->restore_items(original->save_items(),
                           [](const RowTaker&) -> Status {
                             return Error{Code::kIo, "gone"};
                           })
          .error()
          .code,
      Code::kIo);
  EXPECT_EQ(table->save(), before);
  // The oldest five and the newest three.
  const std::vector<std::int64_t> left(rows.ids.begin() + 5, rows.ids.end() - 3);
  ASSERT_TRUE(table->restore_items(original->save_items(), source(rows.first + 5, left)).ok());
  EXPECT_EQ(table->info().items, 32);
  EXPECT_EQ(table->info().inserts, original->info().inserts - 3);
  EXPECT_EQ(table->info().samples, original->info().samples);
  EXPECT_EQ(rows_of(*table).first, rows.first + 5);
  EXPECT_EQ(rows_of(*table).ids, left);
  ASSERT_FALSE(live(*table, 2, 100).empty());
  // All of them.
  ASSERT_TRUE(table->restore_items(original->save_items(), source(0, {})).ok());
  EXPECT_EQ(table->info().items, 0);
  EXPECT_EQ(table->info().inserts, original->info().inserts);
  const Key next = *insert_one(*table, 8);
  EXPECT_EQ(next, static_cast<Key>(original->info().inserts));
  EXPECT_EQ(rows_of(*table).ids, std::vector<std::int64_t>{8});
}

TEST_P(TableImage, RecoversRowsPastTheLimiterUnderTheirKeys) {
  const TableOptions options = options_of(SelectorKind::kPrioritized, SelectorKind::kFifo, 0);
  for (const std::size_t count : {17u, 40u, 90u}) {
    auto table = make(options);
    std::vector<std::int64_t> ids;
    for (std::size_t i = 0; i < count; ++i) {
      ids.push_back(static_cast<std::int64_t>(i) * 3);
      const double priority = static_cast<double>(i);
      ASSERT_TRUE(table->recover(1003 + i, TestBatch({ids.back()}).view(), {&priority, 1}, 500 + ids.back()).ok());
    }
    const std::size_t items = std::min<std::size_t>(count, 40);
    EXPECT_EQ(table->info().inserts, 1003 + static_cast<std::int64_t>(count));
    EXPECT_EQ(table->info().samples, 500 + ids.back());
    EXPECT_EQ(rows_of(*table).first, 1003 + count - items);
    EXPECT_EQ(rows_of(*table).ids, std::vector(ids.end() - static_cast<std::ptrdiff_t>(items), ids.end()));
    // Keys, priorities and images are as sound as ever.
    const Key key = 1002 + count;
    const double priority = 7;
    EXPECT_EQ(*table->update_priorities({&key, 1}, {&priority, 1}), 0);
    auto other = make(options);
    ASSERT_TRUE(other->restore(table->save()).ok());
    EXPECT_EQ(other->save(), table->save());
    EXPECT_EQ(live(*other, 4, 100), live(*table, 4, 100));
  }
  auto table = make(options);
  ASSERT_TRUE(table->recover(5, TestBatch({1}).view(), {}, 0).ok());
  EXPECT_EQ(table->recover(7, TestBatch({1}).view(), {}, 0).error().code, Code::kInvalidArgument) << "must follow";
  BatchBuffer row(test_signature(), 1);
  double priority = 0;
  EXPECT_EQ(table->read(4, row.mutable_view(), {&priority, 1}).error().code, Code::kNotFound);
  if (!exists(GetParam(), options_of(SelectorKind::kUniform, SelectorKind::kLifo, 0))) return;
  auto lifo = make(options_of(SelectorKind::kUniform, SelectorKind::kLifo, 0));
  EXPECT_EQ(lifo->recover(0, TestBatch({1}).view(), {}, 0).error().code, Code::kInvalidArgument);
  EXPECT_EQ(lifo->restore_items(lifo->save_items(), source(0, {})).error().code, Code::kInvalidArgument);
}

TEST_P(TableImage, AnEmptyTableCanBeSavedToo) {
  auto table = make({.max_items = 4});
  auto other = make({.max_items = 4, .seed = 5});
  ASSERT_TRUE(insert_one(*other, 1).ok());
  ASSERT_TRUE(other->restore(table->save()).ok());
  EXPECT_EQ(other->info().items, 0);
  EXPECT_EQ(other->save(), table->save());
}

TEST_P(TableImage, KeepsChunksBoundedAndInOrder) {
  // 1 MiB rows: 15 to a chunk of 16 MiB.
  const Signature signature{{"pixels", DType::kU8, {1 << 20}}};
  auto table = make({.signature = signature, .max_items = 40});
  BatchBuffer row(signature, 1);
  for (int i = 0; i < 35; ++i) {
    row.mutable_view().columns[0][12345] = static_cast<std::byte>(i);
    ASSERT_TRUE(table->insert(row.view(), {}).ok());
  }
  auto image = table->save();
  ASSERT_EQ(image.size(), 4u);
  for (const auto& chunk : image) EXPECT_LE(chunk.size(), kImageChunkBytes);
  auto other = make({.signature = signature, .max_items = 40});
  ASSERT_TRUE(other->restore(image).ok());
  std::swap(image[1], image[2]);
  const Status swapped = other->restore(image);
  ASSERT_FALSE(swapped.ok());
  EXPECT_EQ(swapped.error().code, Code::kCorrupt);
  EXPECT_NE(swapped.error().message.find("chunk 1: says it is 2 of 4"), std::string::npos) << swapped.error().message;
}

TEST_P(TableImage, RefusesDamageAndStaysAsItWas) {
  const TableOptions options = options_of(SelectorKind::kPrioritized, SelectorKind::kFifo, 0);
  auto source = make(options);
  live(*source, 1, 100);
  const auto good = source->save();
  ASSERT_EQ(good.size(), 2u);
  auto table = make(options);
  live(*table, 2, 60);
  const auto before = table->save();
  auto refuse = [&](const std::vector<std::vector<std::byte>>& image, const char* what) {
    const Status status = table->restore(image);
    ASSERT_FALSE(status.ok()) << what;
    EXPECT_EQ(status.error().code, Code::kCorrupt) << what << ": " << status.error().message;
    EXPECT_EQ(table->save(), before) << what;
  };
  refuse({}, "no chunks");
  refuse({good[0]}, "chunk missing");
  refuse({good[0], good[1], good[1]}, "chunk too many");
  refuse({good[1], good[0]}, "order");
  for (std::size_t c : {0u, 1u}) {
    for (std::size_t size = 0; size < good[c].size(); size += 1 + size / 8) {
      auto cut = good;
      cut[c].resize(size);
      refuse(cut, "cut short");
    }
    auto longer = good;
    longer[c].push_back({});
    refuse(longer, "too long");
  }
  auto poke = [&](std::size_t chunk, std::size_t offset, auto value, const char* what) {
    auto image = good;
    std::memcpy(image[chunk].data() + offset, &value, sizeof(value));
    refuse(image, what);
  };
  constexpr std::size_t kPrefix = 32;
  constexpr std::size_t kRow = 8 + 8 + 4 + 37;
  poke(1, 0, std::uint8_t{0}, "magic");
  poke(1, 16, std::uint64_t{1}, "first slot");
  poke(1, kPrefix, std::uint64_t{1} << 40, "key from the future");
  poke(1, kPrefix + kRow, std::uint64_t{0}, "key in another's slot");
  poke(1, kPrefix + 8, -1.0, "priority");
  poke(1, kPrefix + 16, std::int32_t{-1}, "times_sampled");
  const std::size_t deletes = good[0].size() - sizeof(Rng::State) - sizeof(std::int64_t);
  poke(0, deletes, std::numeric_limits<std::int64_t>::min(),
       "deletes so far below zero that their difference overflows");
}

TEST_P(TableImage, RefusesAnotherKindOfTable) {
  const TableOptions options = options_of(SelectorKind::kPrioritized, SelectorKind::kFifo, 0);
  auto source = make(options);
  live(*source, 1, 100);
  const auto image = source->save();
  auto refuse = [&](TableOptions other, std::string_view what) {
    if (!exists(GetParam(), other)) return;
    const Status status = make(std::move(other))->restore(image);
    ASSERT_FALSE(status.ok()) << what;
    EXPECT_EQ(status.error().code, Code::kShapeMismatch);
    EXPECT_NE(status.error().message.find(what), std::string::npos) << status.error().message;
  };
  TableOptions other = options;
  other.signature = {{"observation", DType::kF32, {5}}};
  refuse(other, "columns");
  other = options;
  other.max_items = 41;
  refuse(other, "capacity is 40, expected 41");
  other = options;
  other.sampler.priority_exponent = 0.7;
  refuse(other, "sampler");
  other = options;
  other.remover.kind = SelectorKind::kLifo;
  refuse(other, "remover");
  other = options;
  other.max_times_sampled = 4;
  refuse(other, "max_times_sampled");
  // Another limiter is welcome: a run may be resumed with another ratio.
  other = options;
  other.limiter = {.min_size_to_sample = 2};
  EXPECT_TRUE(make(other)->restore(image).ok());
}

INSTANTIATE_TEST_SUITE_P(Where, TableImage, testing::ValuesIn(kEverywhere), table_name);

}  // namespace
}  // namespace troupe::replay
