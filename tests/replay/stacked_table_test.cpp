// Tables that keep stacks split, beside tables of the same rows that do not know of stacks: what is drawn is the same
// to the last bit, whatever leaves and comes back, and each plane is in memory once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <tuple>
#include <vector>

#include <troupe/core/rng.hpp>
#include <troupe/core/stacks.hpp>
#include <troupe/replay/n_step_adder.hpp>
#include <troupe/tests/replay/tables_under_test.hpp>

namespace troupe::replay {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kPlanes = 3;
constexpr std::size_t kPlaneBytes = 8 * 8 * 2, kStackBytes = kPlanes * kPlaneBytes;

Signature observed(bool stacked) {
  return {{"pixels", DType::kU8, {8, 8, 2 * kPlanes}, {.planes = stacked ? kPlanes : 1}}, {"speed", DType::kF32, {}}};
}
const Signature kActed = {{"action", DType::kF32, {1}}};
Signature item(bool stacked) { return transition_signature(observed(stacked), kActed); }

/// Three-step transitions of random images in stacks, as an env actor has them; episodes of 5 to 24 steps.
class Transitions {
 public:
  explicit Transitions(std::uint64_t seed)
      : rng_(seed), adder_(NStepAdder::make({observed(true), kActed, 3, 0.9}).value()) {
    begin();
  }
  /// `count` rows at least.
  std::unique_ptr<BatchBuffer> next(std::int64_t count) {
    BatchBuffer most(item(true), count + 3);
    std::int64_t rows = 0;
    while (rows < count) {
      const bool last = --left_ == 0;
      show(false);
      const float action = static_cast<float>(rng_.uniform());
      rows += adder_
                  ->add({std::as_bytes(std::span(&action, 1)), rng_.uniform(), 1.0, observation_, last},
                        most.mutable_view(), rows)
                  .value();
      if (last) begin();
    }
    auto exact = std::make_unique<BatchBuffer>(item(true), rows);
    const BatchView from = most.view().slice(0, rows);
    for (std::size_t c = 0; c < from.columns.size(); ++c) {
      std::ranges::copy(from.columns[c], exact->mutable_view().columns[c].begin());
    }
    return exact;
  }

 private:
  void begin() {
    left_ = 5 + static_cast<std::int64_t>(rng_.below(20));
    show(true);
    adder_->first(observation_).value();
  }
  /// The next image at the end of the stack; an episode's first one stands for those before it.
  void show(bool first) {
    for (std::size_t pixel = 0; pixel < 64; ++pixel) {
      std::byte* const at = observation_.data() + pixel * 2 * kPlanes;
      std::memmove(at, at + 2, 2 * (kPlanes - 1));
      const std::byte image[] = {static_cast<std::byte>(rng_()), static_cast<std::byte>(rng_())};
      for (std::size_t k = first ? 0 : kPlanes - 1; k < kPlanes; ++k) std::memcpy(at + 2 * k, image, 2);
    }
    const float speed = static_cast<float>(rng_.uniform());
    std::memcpy(observation_.data() + kStackBytes, &speed, sizeof(speed));
  }

  Rng rng_;
  std::unique_ptr<NStepAdder> adder_;
  std::vector<std::byte> observation_ = std::vector<std::byte>(row_bytes(observed(true)));
  std::int64_t left_ = 0;
};

std::vector<double> some_priorities(std::int64_t rows) {
  std::vector<double> priorities;
  for (std::int64_t i = 0; i < rows; ++i) priorities.push_back(0.5 + static_cast<double>(i % 5));
  return priorities;
}

/// What a draw gives: columns one behind the other, then the items' keys.
std::vector<std::byte> drawn(Table& table, std::int64_t rows) {
  BatchBuffer batch(item(true), rows);
  std::vector<SampledItem> items(static_cast<std::size_t>(rows));
  EXPECT_TRUE(table.sample(batch.mutable_view(), items).ok());
  std::vector<std::byte> all;
  for (const auto column : batch.view().columns) all.insert(all.end(), column.begin(), column.end());
  for (const SampledItem& sampled : items) {
    const auto key = std::as_bytes(std::span(&sampled.key, 1));
    all.insert(all.end(), key.begin(), key.end());
  }
  return all;
}

class StackedTable : public testing::TestWithParam<std::tuple<Where, SelectorKind, SelectorKind, int>> {
 protected:
  void SetUp() override {
    if (!exists(std::get<0>(GetParam()), options(true))) GTEST_SKIP() << "there is no such table";
  }
  TableOptions options(bool stacked) const {
    return {.signature = item(stacked),
            .max_items = 50,
            .sampler = {.kind = std::get<1>(GetParam()), .priority_exponent = 1},
            .remover = {.kind = std::get<2>(GetParam())},
            .max_times_sampled = std::get<3>(GetParam()),
            .seed = 5};
  }
  std::unique_ptr<Table> make(bool stacked) const { return make_table(std::get<0>(GetParam()), options(stacked)); }
};

TEST_P(StackedTable, DrawsWhatATableOfWholeRowsDraws) {
  const auto split_table = make(true), whole_table = make(false);
  const Stacks stacks(item(true));
  StackSplitter splitter(stacks);
  Transitions transitions(1);
  Rng rng(2);
  for (int round = 0; round < 60; ++round) {
    const auto rows = transitions.next(1 + static_cast<std::int64_t>(rng.below(9)));
    const BatchView whole = rows->view();
    const std::vector<double> priorities = some_priorities(whole.rows);
    ASSERT_EQ(whole_table->insert(whole, priorities).value(),
              split_table->insert(round % 3 == 0 ? whole : splitter.split(whole), priorities).value());
    ASSERT_EQ(split_table->info().items, whole_table->info().items);
    const std::int64_t draws = std::min<std::int64_t>(5, whole_table->sampleable(5));
    ASSERT_EQ(drawn(*split_table, draws), drawn(*whole_table, draws)) << round;
    if (round % 10 != 9) continue;
    // What was saved goes on in another table; whole rows are taken by a table that splits them, too.
    const auto image = split_table->save();
    const auto restored = make(true);
    ASSERT_TRUE(restored->restore(image).ok());
    EXPECT_EQ(restored->save(), image);
    EXPECT_EQ(restored->info().bytes, split_table->info().bytes);
    const auto from_whole = make(true);
    ASSERT_TRUE(from_whole->restore(whole_table->save()).ok());
    ASSERT_TRUE(split_table->restore(image).ok());
    if (draws > 0 && whole_table->sampleable(draws) >= draws) {
      const auto expected = drawn(*whole_table, draws);
      EXPECT_EQ(drawn(*split_table, draws), expected);
      EXPECT_EQ(drawn(*restored, draws), expected);
      EXPECT_EQ(drawn(*from_whole, draws), expected);
    }
  }
  if (std::get<0>(GetParam()) == Where::kHost) {
    // Neighbours that leave at random leave planes behind that fewer items have.
    const bool neighbours = std::get<2>(GetParam()) == SelectorKind::kFifo && std::get<3>(GetParam()) == 0;
    EXPECT_LT(split_table->info().bytes, whole_table->info().bytes * (neighbours ? 30 : 80) / 100);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Where, StackedTable,
    testing::Combine(testing::ValuesIn(kEverywhere),
                     testing::Values(SelectorKind::kUniform, SelectorKind::kPrioritized, SelectorKind::kFifo),
                     testing::Values(SelectorKind::kFifo, SelectorKind::kUniform, SelectorKind::kPrioritized),
                     testing::Values(0, 3)));

TEST(SplitTable, KeepsEachImageOnce) {
  const auto table = make_table({.signature = item(true), .max_items = 1000});
  Transitions transitions(3);
  const Stacks stacks(item(true));
  StackSplitter splitter(stacks);
  for (int round = 0; round < 200; ++round) {
    const auto rows = transitions.next(8);
    ASSERT_TRUE(table->insert(splitter.split(rows->view()), {}).ok());
  }
  const TableInfo info = table->info();
  ASSERT_EQ(info.items, 1000);
  // An episode of n steps has n + 1 images and n items, and messages have images twice that are kept once; the rest of
  // a row takes 64 bytes.
  EXPECT_LT(static_cast<double>(info.bytes) / 1000, 1.12 * kPlaneBytes + 72);
}

TEST(SplitTable, FreesImagesWithTheirLastItem) {
  const auto table = make_table({.signature = item(true), .max_items = 1000, .max_times_sampled = 1});
  Transitions transitions(4);
  for (int round = 0; round < 20; ++round) {
    const auto rows = transitions.next(40);
    ASSERT_TRUE(table->insert(rows->view(), {}).ok());
    (void)drawn(*table, table->info().items);
    EXPECT_EQ(table->info().items, 0);
    EXPECT_EQ(table->info().bytes, 0);
  }
}

TEST(SplitTable, StaysWithinMaxBytesWhateverImagesAreShared) {
  constexpr std::int64_t kBytes = 20'000;
  for (const SelectorKind remover : {SelectorKind::kFifo, SelectorKind::kUniform}) {
    const auto table =
        make_table({.signature = item(true), .max_items = 1000, .max_bytes = kBytes, .remover = {.kind = remover}});
    Transitions transitions(5);
    std::int64_t most = 0;
    for (int round = 0; round < 200; ++round) {
      const auto rows = transitions.next(7);
      ASSERT_TRUE(table->insert(rows->view(), {}).ok());
      ASSERT_LE(table->info().bytes, kBytes);
      EXPECT_EQ(table->info().inserts - table->info().evictions, table->info().items);
      most = std::max(most, table->info().items);
      (void)drawn(*table, 3);
      if (round != 150) continue;
      const auto image = table->save();
      ASSERT_TRUE(table->restore(image).ok());
      EXPECT_EQ(table->save(), image);
    }
    EXPECT_GT(most, remover == SelectorKind::kFifo ? 80 : 25) << "whole rows would be 25";
    // Images of noise in every plane share nothing.
    BatchBuffer noise(item(true), 10);
    Rng rng(6);
    for (const std::size_t column : {0, 5}) {
      for (std::byte& byte : noise.mutable_view().columns[column]) byte = static_cast<std::byte>(rng());
    }
    for (int round = 0; round < 5; ++round) ASSERT_TRUE(table->insert(noise.view(), {}).ok());
    EXPECT_LE(table->info().bytes, kBytes);
  }
}

TEST(SplitTable, SaysThatMaxBytesHoldTooFewItems) {
  const auto table = make_table({.signature = item(true),
                                 .max_items = 1000,
                                 .max_bytes = 4000,
                                 .limiter = {.min_size_to_sample = 20, .max_diff = 1e9}});
  Transitions transitions(7);
  for (int round = 0; round < 20; ++round) ASSERT_TRUE(table->insert(transitions.next(7)->view(), {}).ok());
  EXPECT_THAT(table->sample_blocker(1), HasSubstr("items fill max_bytes 4000"));
  const auto refused = Table::make({.signature = item(true),
                                    .max_items = 1000,
                                    .max_bytes = 1000,
                                    .limiter = {.min_size_to_sample = 20, .max_diff = 1e9}});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("room for 5 items (max_items 1000, max_bytes 1000"));
}

TEST_P(EveryTable, RefusesSplitRowsThatNameNoPlane) {
  const auto table = make({.signature = item(true), .max_items = 10});
  const Stacks stacks(item(true));
  StackSplitter splitter(stacks);
  Transitions transitions(8);
  ASSERT_TRUE(table->insert(transitions.next(4)->view(), {}).ok());
  const auto before = table->save();
  const auto rows = transitions.next(4);
  const BatchView good = splitter.split(rows->view());
  const auto refused = [&](const BatchView& batch) {
    const auto key = table->insert(batch, {});
    EXPECT_EQ(table->save(), before) << "nothing has changed";
    return key.ok() ? "accepted" : key.error().message;
  };
  std::vector<std::int32_t> places(static_cast<std::size_t>(good.rows * kPlanes), 0);
  places.back() = static_cast<std::int32_t>(good.planes[0].size() / kPlaneBytes);
  BatchView bad = good;
  bad.columns[0] = std::as_bytes(std::span(places));
  EXPECT_THAT(refused(bad), HasSubstr("of column \"pixels\" names plane"));
  bad = good;
  bad.planes[0] = bad.planes[0].first(bad.planes[0].size() - 1);
  EXPECT_THAT(refused(bad), HasSubstr("bytes of planes, expected"));
  bad = good;
  bad.planes.clear();
  EXPECT_THAT(refused(bad), HasSubstr("column 0 is pixels: int32[3], expected pixels: uint8[8, 8, 6]"));
  bad = good;
  bad.signature = &stacks.whole();
  EXPECT_THAT(refused(bad), HasSubstr("column 0 is pixels: uint8[8, 8, 6], expected pixels: int32[3]"));
  bad = good;
  bad.columns[0] = bad.columns[0].first(4);
  EXPECT_THAT(refused(bad), HasSubstr("column \"pixels\" has 4 bytes"));
  EXPECT_TRUE(table->insert(good, {}).ok());
}

TEST(SplitTable, RefusesImagesThatNameNoPlane) {
  const auto table = make_table({.signature = item(true), .max_items = 20});
  Transitions transitions(9);
  ASSERT_TRUE(table->insert(transitions.next(10)->view(), {}).ok());
  const auto image = table->save();
  Rng rng(10);
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    auto broken = image;
    auto& chunk = broken[rng.below(broken.size())];
    if (rng.below(8) == 0) {
      chunk.resize(rng.below(chunk.size()));
    } else {
      chunk[rng.below(rng.below(2) == 0 ? std::min<std::size_t>(chunk.size(), 200) : chunk.size())] =
          static_cast<std::byte>(rng());
    }
    const auto other = make_table({.signature = item(true), .max_items = 20});
    if (!other->restore(broken).ok()) {
      ++refused;
      EXPECT_EQ(other->info().items, 0);
    } else if (other->info().items > 0) {
      (void)drawn(*other, 3);
    }
  }
  EXPECT_GT(refused, 300);
  const auto whole = make_table({.signature = item(false), .max_items = 20});
  EXPECT_EQ(whole->restore(image).error().code, Code::kCorrupt);
}

}  // namespace
}  // namespace troupe::replay
