// Tables over shared steps against a plain model, under random operations: what is drawn are the steps that were
// appended, and a step is in memory as long as an item or a writer can need it, and no longer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <set>

#include <troupe/replay/sequence_tables.hpp>

namespace troupe::replay {
namespace {

using testing::HasSubstr;

SequenceOptions sequence_options(std::int64_t chunk_steps = 4) {
  return {.step = {{"observation", DType::kF32, Shape({2})}, {"id", DType::kI64, {}}},
          .tables = {{.name = "short", .max_items = 9, .remover = {.kind = SelectorKind::kUniform}},
                     {.name = "whole", .max_items = 3, .max_times_sampled = 2},
                     {.name = "ranked",
                      .max_items = 5,
                      .sampler = {.kind = SelectorKind::kPrioritized},
                      .remover = {.kind = SelectorKind::kMinHeap}}},
          .chunk_steps = chunk_steps};
}

class SequenceTablesTest : public testing::TestWithParam<std::int64_t> {
 protected:
  std::unique_ptr<SequenceTables> make() { return SequenceTables::make(sequence_options(GetParam())).value(); }
};

/// Steps with these ids, one after the other.
void append(SequenceTables& tables, SequenceTables::Writer writer, std::int64_t first, std::int64_t count) {
  std::vector<float> observations;
  std::vector<std::int64_t> ids;
  for (std::int64_t id = first; id < first + count; ++id) {
    ids.push_back(id);
    observations.insert(observations.end(), {static_cast<float>(id), static_cast<float>(-id)});
  }
  BatchView steps{.signature = &tables.step(), .rows = count, .columns = {}};
  steps.columns.emplace_back(std::as_bytes(std::span(observations)));
  steps.columns.emplace_back(std::as_bytes(std::span(ids)));
  tables.append(writer, steps).value();
}

/// Of one item; the observations say the same.
std::vector<std::int64_t> ids_of(const SequenceTables& tables, const Sequences& drawn, std::size_t item) {
  const auto longest = static_cast<std::size_t>(drawn.longest), steps = longest * drawn.items.size();
  std::vector<float> observations(2 * steps, -1);
  std::vector<std::int64_t> ids(steps, -1);
  const Signature signature = tables.batch_signature(drawn);
  MutableBatchView out{.signature = &signature, .rows = static_cast<std::int64_t>(drawn.items.size()), .columns = {}};
  out.columns.emplace_back(std::as_writable_bytes(std::span(observations)));
  out.columns.emplace_back(std::as_writable_bytes(std::span(ids)));
  tables.read(drawn, out);
  for (std::size_t i = 0; i < steps; ++i) EXPECT_EQ(observations[2 * i + 1], static_cast<float>(-ids[i]));
  const auto begin = ids.begin() + static_cast<std::ptrdiff_t>(item * longest);
  const auto end = begin + drawn.ranges[item].count;
  EXPECT_TRUE(std::all_of(end, begin + drawn.longest, [](std::int64_t id) { return id == 0; }));
  return {begin, end};
}

TEST_P(SequenceTablesTest, GiveBackTheStepsOfEachItemAndForgetOthers) {
  const auto tables = make();
  struct ModelWriter {
    std::int64_t max_steps = 0;
    std::vector<std::int64_t> episode;
  };
  std::map<SequenceTables::Writer, ModelWriter> writers;
  std::vector<std::map<Key, std::vector<std::int64_t>>> model(tables->count());
  Rng rng(GetParam());
  std::int64_t next_id = 0;
  const auto below = [&](std::size_t bound) { return static_cast<std::int64_t>(rng.below(bound)); };
  for (int i = 0; i < 3000; ++i) {
    const auto any = writers.empty() ? writers.end() : std::next(writers.begin(), below(writers.size()));
    const auto table = static_cast<std::size_t>(below(tables->count()));
    switch (any == writers.end() ? 0 : below(9)) {
      case 0:
        if (writers.size() < 3) {
          const std::int64_t max_steps = 1 + below(12);
          writers[tables->open(max_steps).value()] = {max_steps, {}};
        }
        break;
      case 1:
        tables->end_episode(any->first).value();
        any->second.episode.clear();
        break;
      case 2:
        if (below(10) == 0) {
          tables->close(any->first).value();
          writers.erase(any);
        }
        break;
      case 3:
      case 4: {
        const std::int64_t count = 1 + below(below(5) == 0 ? 20 : 3);
        append(*tables, any->first, next_id, count);
        for (std::int64_t k = 0; k < count; ++k) any->second.episode.push_back(next_id++);
        break;
      }
      case 5:
      case 6: {
        const auto& episode = any->second.episode;
        const std::int64_t reach = std::min<std::int64_t>(any->second.max_steps, std::ssize(episode));
        ASSERT_EQ(tables->reach(any->first).value(), reach);
        EXPECT_EQ(tables->insert(any->first, table, reach + 1, 1).error().code, Code::kInvalidArgument);
        if (reach == 0) break;
        const std::int64_t steps = 1 + below(static_cast<std::size_t>(reach));
        const Key key = tables->insert(any->first, table, steps, static_cast<double>(below(4))).value();
        model[table][key] = {episode.end() - steps, episode.end()};
        break;
      }
      case 7: {
        if (below(20) == 0) {
          tables->reset(table).value();
          model[table].clear();
          break;
        }
        if (model[table].empty()) break;
        const Key key = std::next(model[table].begin(), below(model[table].size()))->first;
        EXPECT_LE(tables->erase(table, {{key}}).value(), 1);  // it may have left before
        EXPECT_EQ(tables->erase(table, {{key}}).value(), 1);
        model[table].erase(key);
        break;
      }
      default: {
        if (tables->table(table).sampleable(2) < 2) break;
        const Sequences drawn = tables->sample(table, 2).value();
        for (std::size_t k = 0; k < 2; ++k) EXPECT_EQ(ids_of(*tables, drawn, k), model[table].at(drawn.items[k].key));
        tables->release(drawn);
      }
    }
  }
  const SequenceInfo info = tables->info();
  EXPECT_GT(info.steps, 0);
  EXPECT_LE(info.steps, (9 + 3 + 5) * (12 + 2 * GetParam()) + 3 * (12 + 20 + 2 * GetParam()));
  for (const auto& [writer, state] : writers) tables->close(writer).value();
  // An empty table of each kind lets all steps go.
  const auto empty = make();
  const std::vector<std::size_t> all = {0, 1, 2};
  tables->restore(all, empty->save(all)).value();
  EXPECT_EQ(tables->info().steps, 0);
}

TEST_P(SequenceTablesTest, AnImageGoesOnBitForBitAlsoOfOneTable) {
  const auto tables = make();
  const auto writer = tables->open(8).value();
  for (std::int64_t i = 0; i < 40; ++i) {
    append(*tables, writer, i, 1);
    for (std::size_t table = 0; table < 3; ++table)
      tables->insert(writer, table, std::min<std::int64_t>(i + 1, 5), 1).value();
  }
  const std::vector<std::size_t> all = {0, 1, 2}, one = {2};
  const auto other = make();
  other->restore(one, tables->save(one)).value();
  EXPECT_EQ(other->info().tables[0].items, 0);
  EXPECT_EQ(other->info().tables[2].items, 5);
  EXPECT_LT(other->info().steps, tables->info().steps + 1);
  other->restore(all, tables->save(all)).value();
  for (const std::size_t table : all) {
    const std::int64_t rows = std::min<std::int64_t>(tables->table(table).sampleable(4), 4);
    const Sequences a = tables->sample(table, rows).value(), b = other->sample(table, rows).value();
    for (std::size_t i = 0; i < static_cast<std::size_t>(rows); ++i) {
      EXPECT_EQ(a.items[i].key, b.items[i].key);
      EXPECT_EQ(ids_of(*tables, a, i), ids_of(*other, b, i));
    }
    tables->release(a);
    other->release(b);
  }
}

TEST_P(SequenceTablesTest, WritersGoOnFromTheirImage) {
  const auto tables = make(), copy = make();
  const auto one = tables->open(5).value(), other = tables->open(2).value();
  append(*tables, one, 1, 9);
  append(*tables, other, 100, 3);
  tables->end_episode(other).value();
  append(*tables, other, 103, 1);
  tables->insert(one, 0, 3, 1).value();
  const std::vector<std::size_t> all = {0, 1, 2};
  copy->restore(all, tables->save(all)).value();
  copy->restore_writers(tables->save_writers()).value();
  EXPECT_EQ(copy->info().writers, 2);
  EXPECT_EQ(copy->info().steps, tables->info().steps);
  for (SequenceTables* each : {tables.get(), copy.get()}) {
    EXPECT_EQ(each->reach(one).value(), 5);
    EXPECT_EQ(each->reach(other).value(), 1);
    append(*each, one, 10, 1);
    each->insert(one, 1, 5, 1).value();
    const auto drawn = each->sample(1, 1).value();
    EXPECT_THAT(ids_of(*each, drawn, 0), testing::ElementsAre(6, 7, 8, 9, 10));
    each->release(drawn);
    each->close(one).value();
    each->close(other).value();
  }
  EXPECT_EQ(copy->open(1).value(), tables->open(1).value());
  EXPECT_EQ(copy->info().steps, tables->info().steps);
}

TEST_P(SequenceTablesTest, ADamagedImageOfWritersChangesNothing) {
  const auto tables = make();
  const auto writer = tables->open(5).value();
  append(*tables, writer, 1, 9);
  const auto image = tables->save_writers();
  for (std::size_t byte = 0; byte < 8 * 11; ++byte) {  // but for the generator's state and the count of episodes
    if (byte >= 8 && byte < 8 * 6) continue;
    auto damaged = image;
    damaged[0][byte] ^= std::byte{0x80};
    const auto copy = make();
    if (copy->restore_writers(damaged).ok()) {
      EXPECT_TRUE(byte / 8 == 7) << byte;  // a larger max_steps is as good
    } else {
      EXPECT_EQ(copy->info().writers, 0) << byte;
      EXPECT_EQ(copy->info().steps, 0) << byte;
    }
  }
  auto fewer = image;
  fewer.pop_back();
  EXPECT_EQ(make()->restore_writers(fewer).error().code, Code::kCorrupt);
  EXPECT_EQ(make()->restore_writers({}).error().code, Code::kCorrupt);
}

TEST_P(SequenceTablesTest, APatternIsWhatPythonsSlicesGive) {
  SequenceOptions options = sequence_options(GetParam());
  const std::vector<SequenceColumn> pattern = {
      {"whole", "id"},        {"before", "id", 0, -1},    {"after", "id", 1},     {"last", "id", -2, 0},
      {"middle", "id", 1, 3}, {"tail", "id", -3, -1},     {"id", "", 2, 9, true}, {"newest", "id", -1, 0, true},
      {"ends", "id", -3, -2}, {"observation", "", -1, 0},
  };
  options.patterns["whole"] = pattern;
  const auto tables = SequenceTables::make(options).value();
  const auto writer = tables->open(20).value();
  append(*tables, writer, 100, 2);
  EXPECT_THAT(tables->insert(writer, 1, 2, 1).error().message,
              HasSubstr("an item of 2 steps for table \"whole\": expected at least 3"));
  tables->insert(writer, 0, 2, 1).value();
  append(*tables, writer, 102, 15);
  for (const std::int64_t steps : {3, 16}) tables->insert(writer, 1, steps, 1).value();
  std::set<std::int64_t> drawn_lengths;
  while (tables->table(1).sampleable(1) == 1) {
    const std::int64_t rows = tables->table(1).sampleable(2) == 2 ? 2 : 1;
    const Sequences drawn = tables->sample(1, rows).value();
    const Signature signature = tables->batch_signature(drawn);
    ASSERT_EQ(signature.size(), pattern.size());
    std::vector<std::vector<std::byte>> memory;
    MutableBatchView out{.signature = &signature, .rows = rows, .columns = {}};
    for (const TensorSpec& column : signature) {
      memory.emplace_back(column.bytes() * static_cast<std::size_t>(rows), std::byte{0xFF});
    }
    for (auto& column : memory) out.columns.emplace_back(column);
    tables->read(drawn, out);
    for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
      const std::int64_t count = drawn.ranges[row].count, first = 117 - count;
      drawn_lengths.insert(count);
      for (std::size_t i = 0; i + 1 < pattern.size(); ++i) {
        const auto [name, of, begin, end, single] = pattern[i];
        EXPECT_EQ(signature[i].shape.rank(), single ? 0 : 1) << name;
        const std::int64_t from = begin < 0 ? count + begin : begin;
        const std::int64_t to = single ? from + 1 : end <= 0 ? count + end : end;
        std::vector<std::int64_t> expected(signature[i].bytes() / sizeof(std::int64_t));
        for (std::int64_t k = from; k < to; ++k) expected.at(static_cast<std::size_t>(k - from)) = first + k;
        std::vector<std::int64_t> got(expected.size());
        std::memcpy(got.data(), memory[i].data() + row * signature[i].bytes(), signature[i].bytes());
        EXPECT_EQ(got, expected) << name << " of " << count;
      }
      std::array<float, 2> newest{};
      std::memcpy(newest.data(), memory.back().data() + row * sizeof newest, sizeof newest);
      EXPECT_THAT(newest, testing::ElementsAre(116, -116));
    }
    tables->release(drawn);
  }
  EXPECT_THAT(drawn_lengths, testing::ElementsAre(3, 16));
}

INSTANTIATE_TEST_SUITE_P(ChunkSteps, SequenceTablesTest, testing::Values(1, 3, 4, 16));

TEST(SequenceTables, StepsThatOverlapAreInMemoryOnce) {
  const auto tables =
      SequenceTables::make({.step = {{"x", DType::kF32, Shape({1000})}},
                            .tables = {{.name = "a", .max_items = 1000}, {.name = "b", .max_items = 1000}}})
          .value();
  const auto writer = tables->open(80).value();
  const std::vector<float> row(1000);
  BatchView step{.signature = &tables->step(), .rows = 1, .columns = {}};
  step.columns.emplace_back(std::as_bytes(std::span(row)));
  for (int i = 0; i < 1000; ++i) {
    tables->append(writer, step).value();
    if (i < 79) continue;
    tables->insert(writer, 0, 80, 1).value();
    tables->insert(writer, 1, 40, 1).value();
  }
  EXPECT_EQ(tables->info().steps, 1000);
  EXPECT_LT(tables->info().bytes, 1100 * 4000);
}

TEST(SequenceTables, RefuseWhatTheyCannotDo) {
  SequenceOptions options = sequence_options();
  options.tables[1].name = "short";
  EXPECT_THAT(SequenceTables::make(options).error().message, HasSubstr("two tables are called \"short\""));
  using Wrong = std::pair<std::vector<SequenceColumn>, const char*>;
  for (const auto& [pattern, words] :
       {Wrong{{}, "at least one column"}, Wrong{{{"x", ""}}, "column x: a step has no column x"},
        Wrong{{{"id", ""}, {"id", ""}}, "two of this name"}, Wrong{{{"id", "", 2, 2}}, "these are none"},
        Wrong{{{"id", "", -1, -1}}, "these are none"}, Wrong{{{"id", "", -2, 3}}, "from an item's end"},
        Wrong{{{"id", "", std::numeric_limits<std::int64_t>::min()}}, "expected at most"}}) {
    options = sequence_options();
    options.patterns["ranked"] = pattern;
    EXPECT_THAT(SequenceTables::make(options).error().message, HasSubstr(words));
  }
  options.patterns = {{"other", {{"id", ""}}}};
  EXPECT_THAT(SequenceTables::make(options).error().message, HasSubstr("a pattern for table \"other\""));
  options = sequence_options();
  options.patterns["short"] = {{"id", "", -4}};
  {
    const auto longer = SequenceTables::make(options).value(), plain = SequenceTables::make(sequence_options()).value();
    const auto writer = plain->open(4).value();
    append(*plain, writer, 0, 3);
    plain->insert(writer, 0, 3, 1).value();
    const std::vector<std::size_t> one = {0};
    EXPECT_EQ(longer->restore(one, plain->save(one)).error().code, Code::kShapeMismatch);
    EXPECT_EQ(longer->info().steps, 0);
  }
  options = sequence_options();
  options.tables[0].max_items = 0;
  EXPECT_FALSE(SequenceTables::make(options).ok());
  const auto tables = SequenceTables::make(sequence_options()).value();
  EXPECT_FALSE(tables->open(0).ok());
  EXPECT_EQ(tables->close(5).error().code, Code::kNotFound);
  const auto writer = tables->open(4).value();
  EXPECT_EQ(tables->insert(writer, 7, 1, 1).error().code, Code::kInvalidArgument);
  append(*tables, writer, 0, 2);
  EXPECT_FALSE(tables->insert(writer, 0, 1, -1).ok());
  EXPECT_EQ(tables->sample(0, 1).error().code, Code::kUnavailable);
  EXPECT_EQ(tables->info().tables[0].items, 0);
  const Signature other = {{"id", DType::kI64, {}}};
  const std::int64_t id = 0;
  BatchView steps{.signature = &other, .rows = 1, .columns = {}};
  steps.columns.emplace_back(std::as_bytes(std::span(&id, 1)));
  EXPECT_EQ(tables->append(writer, steps).error().code, Code::kShapeMismatch);
}

TEST(StepStore, HasNoRangeBeyondItsStepsHoweverLarge) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  StepStore store({{"id", DType::kI64, {}}}, 4);
  const Signature signature = {{"id", DType::kI64, {}}};
  const std::vector<std::int64_t> ids(6);
  BatchView steps{.signature = &signature, .rows = 6, .columns = {}};
  steps.columns.emplace_back(std::as_bytes(std::span(ids)));
  store.append(1, 0, steps);
  EXPECT_TRUE(store.has({1, 0, 6}));
  EXPECT_TRUE(store.has({1, 5, 1}));
  for (const StepRange range : {StepRange{1, 0, 7}, StepRange{1, 6, 1}, StepRange{2, 0, 1}, StepRange{1, -1, 2},
                                StepRange{1, 0, -1}, StepRange{1, 0, kMost}, StepRange{1, kMost, 6}}) {
    EXPECT_FALSE(store.has(range)) << range.writer << " " << range.first << " " << range.count;
  }
}

TEST(SequenceTables, ADamagedImageChangesNothing) {
  const auto tables = SequenceTables::make(sequence_options()).value();
  const auto writer = tables->open(8).value();
  append(*tables, writer, 0, 8);
  for (std::size_t table = 0; table < 3; ++table) tables->insert(writer, table, 7, 1).value();
  const std::vector<std::size_t> all = {0, 1, 2};
  const auto image = tables->save(all);
  for (std::size_t chunk = 0; chunk < image.size(); ++chunk) {
    for (const bool cut : {true, false}) {
      const auto other = SequenceTables::make(sequence_options()).value();
      auto damaged = image;
      if (cut) {
        damaged.erase(damaged.begin() + static_cast<std::ptrdiff_t>(chunk));
      } else {
        damaged[chunk].resize(damaged[chunk].size() / 2);
      }
      EXPECT_FALSE(other->restore(all, damaged).ok()) << chunk;
      EXPECT_EQ(other->info().steps, 0);
      EXPECT_EQ(other->info().tables[0].items, 0);
    }
  }
  SequenceOptions wider = sequence_options();
  wider.step[0].shape = Shape({3});
  EXPECT_EQ(SequenceTables::make(wider).value()->restore(all, image).error().code, Code::kShapeMismatch);
}

}  // namespace
}  // namespace troupe::replay
