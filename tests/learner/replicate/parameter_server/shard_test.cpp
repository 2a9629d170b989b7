// A shard against results worked out by hand: what gradients of which age do to it, in asynchronous and in synchronous
// mode, as dense values and as rows.
#include <troupe/learner/replicate/parameter_server/shard.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include <troupe/core/rng.hpp>

namespace troupe::learner {
namespace {

using messages::GradientOutcome;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

/// One tensor [2], and all of the optimiser's factors powers of two: every result below is exact.
ServedModel pair_model(OptimizerSpec optimizer = {.rule = Sgd{.learning_rate = 0.5}}) {
  ServedModel model;
  ServedGroup group{.name = "pair"};
  group.layout.group = "pair";
  group.layout.add("pair/values", {2});
  group.optimizer = std::move(optimizer);
  model.add(std::move(group));
  return model;
}

/// A tensor [3] and a table of 7 rows of 5, which is sparse or not; 16 + 48 elements.
ServedModel table_model(bool sparse, const OptimizerSpec& optimizer) {
  ServedModel model;
  ServedGroup group{.name = "g"};
  group.layout.group = "g";
  group.layout.add("g/bias", {3});
  group.layout.add("g/table", {7, 5});
  group.optimizer = optimizer;
  model.add(std::move(group));
  if (sparse) model.tables.push_back({.group = 0, .offset = 16, .rows = 7, .columns = 5});
  return model;
}

std::vector<float> floats_of(std::span<const std::byte> bytes, DType dtype) {
  std::vector<float> values(bytes.size() / dtype_bytes(dtype));
  if (dtype == DType::kF32) {
    std::ranges::copy(bytes, std::as_writable_bytes(std::span(values)).begin());
  } else {
    messages::from_bf16({reinterpret_cast<const std::uint16_t*>(bytes.data()), values.size()}, values);
  }
  return values;
}

/// All shards of a model, driven by hand.
struct Server {
  Server(ServedModel served, const ParameterShardOptions& options, std::size_t count = 1,
         ParamPartition how = ParamPartition::kPartitioned)
      : model(std::make_shared<const ServedModel>(std::move(served))) {
    for (ShardPlan& plan : plan_shards(*model, count, how, 64)) {
      shards.push_back(std::make_unique<ParameterShard>(model, std::move(plan), options));
    }
  }
  ParameterShard& operator[](std::size_t shard) { return *shards[shard]; }

  /// What a worker whose flat gradient is `flat` sends to one shard.
  messages::GradientView gradient(std::size_t shard, std::span<const float> flat, std::uint32_t worker,
                                  std::int64_t version, double samples = 1, DType dtype = DType::kF32) {
    const ShardPlan& plan = shards[shard]->plan();
    std::vector<float> dense, rows_values;
    std::vector<std::uint32_t> rows;
    for (const ShardSegment& segment : plan.segments) {
      const auto part =
          flat.subspan(static_cast<std::size_t>(segment.model_offset), static_cast<std::size_t>(segment.elements));
      if (segment.kind == ShardSegment::Kind::kDense) dense.insert(dense.end(), part.begin(), part.end());
      if (segment.kind != ShardSegment::Kind::kSparse) continue;
      const auto columns = static_cast<std::size_t>(model->tables[segment.table].columns);
      for (std::size_t row = 0; row < part.size() / columns; ++row) {
        const auto values = part.subspan(row * columns, columns);
        if (std::ranges::count(values, 0.0f) == std::ssize(values)) continue;
        rows.push_back(static_cast<std::uint32_t>(segment.first_row) + static_cast<std::uint32_t>(row));
        rows_values.insert(rows_values.end(), values.begin(), values.end());
      }
    }
    std::vector<messages::SparseRows> sparse;
    if (!rows.empty()) sparse.push_back({.table = 0, .columns = 5, .rows = rows, .values = {}});
    auto builder = messages::GradientBuilder::make(pool, dtype, std::ssize(dense), sparse).value();
    EXPECT_TRUE(builder.write(dense));
    if (!rows.empty()) {
      EXPECT_TRUE(builder.write_rows(0, rows_values));
    }
    return messages::read_gradient(std::move(builder).finish({.worker = worker,
                                                              .version = version,
                                                              .samples = samples,
                                                              .model_hash = model->hash(),
                                                              .piece = plan.piece.index,
                                                              .pieces = plan.piece.count}))
        .value();
  }
  /// Pushes to every shard the gradient of the version that it is at.
  void push_all(std::span<const float> flat, DType dtype = DType::kF32) {
    for (std::size_t s = 0; s < shards.size(); ++s) {
      ASSERT_EQ(shards[s]->push(gradient(s, flat, 0, shards[s]->version(), 1, dtype)).value(),
                GradientOutcome::kApplied);
    }
  }
  /// A gradient of the pair's two values.
  GradientOutcome push(std::uint32_t worker, std::int64_t version, float a, float b, double samples = 1) {
    std::vector<float> flat(16);
    flat[0] = a;
    flat[1] = b;
    return shards[0]->push(gradient(0, flat, worker, version, samples)).value();
  }
  /// The model's flat space, from what the shards hand out.
  std::vector<float> flat() {
    std::vector<float> values(static_cast<std::size_t>(model->elements), std::nanf(""));
    for (const auto& shard : shards) {
      const auto view = messages::read_parameters(shard->parameters().value()).value();
      const std::vector<float> part = floats_of(view.data(), view.info().dtype);
      auto from = part.begin();
      for (const messages::ParametersRange& range : view.piece().ranges) {
        std::copy_n(from, range.count, values.begin() + range.offset);
        from += range.count;
      }
    }
    return values;
  }
  std::vector<float> pair() {
    auto values = flat();
    values.resize(2);
    return values;
  }

  messages::FramePool pool;
  std::shared_ptr<const ServedModel> model;
  std::vector<std::unique_ptr<ParameterShard>> shards;
};

TEST(ParameterShard, AppliesEveryGradientWhateverItsAgeWithoutAPolicy) {
  Server server(pair_model(), {.workers = 2});
  EXPECT_EQ(server.push(0, 0, 1, 2), GradientOutcome::kApplied);
  EXPECT_EQ(server.push(1, 0, 4, -2), GradientOutcome::kApplied);
  EXPECT_EQ(server.push(1, 0, 0, 2), GradientOutcome::kApplied);
  EXPECT_THAT(server.pair(), ElementsAre(-2.5, -1));
  EXPECT_EQ(server[0].version(), 3);
  EXPECT_EQ(server[0].counts().applied, 3);
  EXPECT_EQ(server[0].counts().staleness_sum, 0 + 1 + 2);
  EXPECT_EQ(server[0].counts().staleness_max, 2);
}

TEST(ParameterShard, DropsWhatIsOlderThanAllowed) {
  Server server(pair_model(), {.workers = 1, .stale = StalePolicy::kDrop, .max_staleness = 2});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(server.push(0, 0, 2, 0), GradientOutcome::kApplied);
  EXPECT_EQ(server.push(0, 0, 2, 0), GradientOutcome::kStale) << "three versions old";
  EXPECT_EQ(server.push(0, 1, 2, 0), GradientOutcome::kApplied);
  EXPECT_THAT(server.pair(), ElementsAre(-4, 0));
  EXPECT_EQ(server[0].counts().applied, 4);
  EXPECT_EQ(server[0].counts().stale, 1);
}

TEST(ParameterShard, DividesTheLearningRateByTheStaleness) {
  Server server(pair_model(), {.workers = 1, .stale = StalePolicy::kScale});
  // Ages 0, 1, 2, 3, 4: rates 1/2 times 1, 1, 1/2, 1/3, 1/4.
  for (const float gradient : {8, 8, 8, 12, 8}) EXPECT_EQ(server.push(0, 0, gradient, 0), GradientOutcome::kApplied);
  EXPECT_NEAR(server.pair()[0], -4 - 4 - 2 - 2 - 1, 1e-6) << "a third is not exact";
}

TEST(ParameterShard, ScalesTheRateOfAdamToo) {
  // Adam's first step is its rate whatever the gradient, so a scaled gradient would change nothing.
  const OptimizerSpec adam{.rule = Adam{.learning_rate = 0.5, .epsilon = 0}};
  Server server(pair_model(adam), {.workers = 1, .stale = StalePolicy::kScale});
  server.push(0, 0, 8, 0.001f);
  EXPECT_NEAR(server.pair()[0], -0.5, 1e-5) << "1 - beta2 has lost bits in float32";
  server.push(0, 0, 8, 0);
  server.push(0, 0, 8, 0);
  EXPECT_NEAR(server.pair()[0], -0.5 - 0.5 - 0.25, 1e-5) << "m and v stay 8 and 64 after correction";
}

TEST(ParameterShard, DropsWhatItCannotKnow) {
  Server server(pair_model(), {.workers = 1, .max_updates = 2});
  EXPECT_EQ(server.push(0, 1, 1, 1), GradientOutcome::kUnknown);
  EXPECT_EQ(server[0].counts().unknown, 1);
  EXPECT_EQ(server.push(0, 0, 1, 1), GradientOutcome::kApplied);
  EXPECT_EQ(server.push(0, 0, 1, 1), GradientOutcome::kApplied);
  EXPECT_EQ(server.push(0, 0, 1, 1), GradientOutcome::kFinished);
  EXPECT_THAT(server.pair(), ElementsAre(-1, -1));
}

TEST(ParameterShard, ASynchronousStepIsTheMeanOfTheFirstWeightedBySamples) {
  // Three workers, one of them spare: a step takes two.
  Server server(pair_model(), {.workers = 3, .gradients_per_update = 2});
  EXPECT_EQ(server.push(2, 0, 4, 8, 1), GradientOutcome::kTaken);
  EXPECT_THAT(server.pair(), ElementsAre(0, 0));
  EXPECT_EQ(server.push(0, 0, 8, 0, 3), GradientOutcome::kApplied);
  EXPECT_THAT(server.pair(), ElementsAre(-3.5, -1)) << "(1 (4, 8) + 3 (8, 0)) / 4 = (7, 2)";
  EXPECT_EQ(server.push(1, 0, 100, 100, 9), GradientOutcome::kStale) << "too late";
  EXPECT_THAT(server.pair(), ElementsAre(-3.5, -1));
  EXPECT_EQ(server[0].version(), 1);
  EXPECT_EQ(server[0].counts().applied, 2);
  EXPECT_EQ(server[0].counts().stale, 1);
}

TEST(ParameterShard, TheOrderOfArrivalChangesNoBitOfASynchronousStep) {
  std::vector<std::uint32_t> order = {0, 1, 2, 3, 4};
  std::vector<float> first;
  do {
    Server server(pair_model(), {.workers = 5, .gradients_per_update = 5});
    for (const std::uint32_t worker : order) {
      const float value = std::exp(static_cast<float>(3 * worker));
      server.push(worker, 0, value, 1 / value, 1 + worker);
    }
    if (first.empty()) first = server.pair();
    ASSERT_EQ(server.pair(), first);
  } while (std::ranges::next_permutation(order).found);
}

TEST(ParameterShard, AWorkersSecondGradientOfAStepTakesThePlaceOfItsFirst) {
  Server server(pair_model(), {.workers = 2, .gradients_per_update = 2});
  server.push(0, 0, 100, 100);
  EXPECT_EQ(server.push(0, 0, 2, 2), GradientOutcome::kTaken);
  server.push(1, 0, 6, 2);
  EXPECT_THAT(server.pair(), ElementsAre(-2, -1));
}

TEST(ParameterShard, AStepWhoseTimeIsUpTakesWhatItHasAndWaitsForNoDeadWorkerAgain) {
  Server server(pair_model(), {.workers = 3, .gradients_per_update = 3});
  server.push(0, 0, 2, 0);
  server.push(1, 0, 6, 0);
  ASSERT_EQ(server[0].taken(), 2u);
  ASSERT_TRUE(server[0].close_step().ok());
  EXPECT_THAT(server.pair(), ElementsAre(-2, 0));
  server.push(0, 1, 2, 0);
  EXPECT_EQ(server.push(1, 1, 2, 0), GradientOutcome::kApplied) << "worker 2 was not there";
  server[0].heard_of(2);
  server.push(0, 2, 2, 0);
  EXPECT_EQ(server.push(1, 2, 2, 0), GradientOutcome::kTaken) << "it is back";
  EXPECT_EQ(server.push(2, 2, 2, 0), GradientOutcome::kApplied);
}

TEST(ParameterShard, OneCopyOfAVersionIsSharedAndNeverChanges) {
  Server server(pair_model(), {.workers = 1});
  server.push(0, 0, 2, 4);
  const messages::Frame first = server[0].parameters().value();
  EXPECT_EQ(server[0].parameters()->bytes().data(), first.bytes().data());
  server.push(0, 1, 2, 4);
  const messages::Frame second = server[0].parameters().value();
  EXPECT_NE(second.bytes().data(), first.bytes().data());
  EXPECT_THAT(floats_of(messages::read_parameters(first)->data().first(8), DType::kF32), ElementsAre(-1, -2));
  EXPECT_EQ(messages::read_parameters(first)->info().version, 1);
  EXPECT_THAT(floats_of(messages::read_parameters(second)->data().first(8), DType::kF32), ElementsAre(-2, -4));
}

TEST(ParameterShard, VersionsThatNobodyGivesBackAreBoundedAndAGradientBeyondChangesNothing) {
  for (const bool synchronous : {false, true}) {
    ServedModel model;
    ServedGroup group{.name = "wide"};
    group.layout.group = "wide";
    group.layout.add("wide/values", {2 << 20});
    group.optimizer = {.rule = Sgd{.learning_rate = 1}};
    model.add(std::move(group));
    Server server(std::move(model), {.workers = 1, .gradients_per_update = synchronous ? 1u : 0u});
    const std::vector<float> ones(2 << 20, 1);
    const auto push = [&] { return server[0].push(server.gradient(0, ones, 0, server[0].version())); };
    std::vector<messages::Frame> kept;
    Result<GradientOutcome> pushed = GradientOutcome::kApplied;
    while (pushed.ok() && kept.size() < 100) {
      kept.push_back(server[0].parameters().value());
      pushed = push();
    }
    ASSERT_FALSE(pushed.ok());
    EXPECT_EQ(pushed.error().code, Code::kUnavailable);
    EXPECT_GE(kept.size(), 6u);
    EXPECT_EQ(server[0].version(), std::ssize(kept) - 1);
    EXPECT_EQ(server[0].taken(), 0u);
    EXPECT_EQ(messages::read_parameters(server[0].parameters().value())->info().version, server[0].version());
    kept.clear();
    EXPECT_EQ(push().value(), GradientOutcome::kApplied);
    EXPECT_EQ(server.flat()[0], -static_cast<float>(server[0].version()));
  }
}

class Tables : public ::testing::TestWithParam<std::tuple<std::size_t, ParamPartition>> {
 protected:
  static constexpr std::size_t kElements = 16 + 48;
  /// Of the bias and of two or three rows of the table.
  static std::vector<float> some_gradient(Rng& rng) {
    std::vector<float> flat(kElements);
    for (std::size_t i = 0; i < 3; ++i) flat[i] = static_cast<float>(rng.normal());
    for (int touched = 0; touched < 3; ++touched) {
      const std::size_t row = rng.below(7);
      for (std::size_t i = 0; i < 5; ++i) flat[16 + row * 5 + i] = static_cast<float>(rng.normal());
    }
    return flat;
  }
};

TEST_P(Tables, SparseEqualsDenseForSgd) {
  const auto [count, how] = GetParam();
  const OptimizerSpec sgd{.rule = Sgd{.learning_rate = 0.1}};
  Server dense(table_model(false, sgd), {.workers = 1}, count, how);
  Server sparse(table_model(true, sgd), {.workers = 1}, count, how);
  Rng rng(5);
  for (int i = 0; i < 20; ++i) {
    const auto flat = some_gradient(rng);
    dense.push_all(flat);
    sparse.push_all(flat);
    if (i % 3 == 0) {
      EXPECT_EQ(sparse.flat(), dense.flat());
    }
  }
  EXPECT_EQ(sparse.flat(), dense.flat());
  EXPECT_NE(sparse.flat(), std::vector<float>(kElements));
}

TEST_P(Tables, RowsThatNoGradientNamesKeepTheirSlots) {
  const auto [count, how] = GetParam();
  const OptimizerSpec adam{.rule = Adam{.learning_rate = 0.1}};
  Server sparse(table_model(true, adam), {.workers = 1}, count, how);
  std::vector<float> flat(kElements);
  for (std::size_t i = 0; i < 5; ++i) flat[16 + 2 * 5 + i] = 1;
  sparse.push_all(flat);
  const auto before = sparse.flat();
  for (std::size_t i = 0; i < 5; ++i) {
    flat[16 + 2 * 5 + i] = 0;
    flat[16 + 3 * 5 + i] = 1;
  }
  sparse.push_all(flat);
  const auto after = sparse.flat();
  for (std::size_t i = 0; i < kElements; ++i) {
    const bool third = i >= 16 + 3 * 5 && i < 16 + 4 * 5;
    EXPECT_EQ(after[i] != before[i], third) << i << ": a dense Adam would go on with row 2 by its momentum";
  }
}

TEST_P(Tables, RowsOfSeveralWorkersAreTheMeanOverAllOfThem) {
  const auto [count, how] = GetParam();
  const OptimizerSpec sgd{.rule = Sgd{.learning_rate = 1}};
  Server server(table_model(true, sgd), {.workers = 2, .gradients_per_update = 2}, count, how);
  std::vector<float> one(kElements), other(kElements);
  one[16] = 8;    // row 0
  one[21] = 4;    // row 1
  other[21] = 8;  // row 1, from three times as many samples
  for (std::size_t s = 0; s < count; ++s) {
    EXPECT_EQ(server[s].push(server.gradient(s, one, 0, 0, 1)).value(), GradientOutcome::kTaken);
    EXPECT_EQ(server[s].push(server.gradient(s, other, 1, 0, 3)).value(), GradientOutcome::kApplied);
  }
  EXPECT_EQ(server.flat()[16], -2) << "who does not name a row says zero";
  EXPECT_EQ(server.flat()[21], -(4 + 3 * 8) / 4);
}

TEST_P(Tables, EveryElementOfThePlanIsInOneSegmentOfOneShard) {
  const auto [count, how] = GetParam();
  ServedModel model = table_model(true, {.rule = Adam{}});
  ServedGroup target{.name = "g.target", .layout = model.groups[0].layout, .online = 0, .every_updates = 3};
  model.add(std::move(target));
  std::vector<int> covered(static_cast<std::size_t>(model.elements));
  for (const ShardPlan& plan : plan_shards(model, count, how, 64)) {
    if (count == 1) {  // as a message about all of it has it
      ASSERT_EQ(plan.piece.ranges.size(), 1U);
      EXPECT_EQ(plan.piece.ranges[0].count, model.elements);
    }
    std::int64_t local = 0;
    for (const ShardSegment& segment : plan.segments) {
      EXPECT_EQ(segment.local_offset, local);
      local += segment.elements;
      for (std::int64_t i = 0; i < segment.elements; ++i) {
        ++covered[static_cast<std::size_t>(segment.model_offset + i)];
      }
    }
    EXPECT_EQ(plan.elements, local);
    EXPECT_EQ(plan.piece.own_elements(), local);
  }
  EXPECT_THAT(covered, ::testing::Each(1));
}

INSTANTIATE_TEST_SUITE_P(Shards, Tables,
                         ::testing::Combine(::testing::Values(1, 2, 3, 9),
                                            ::testing::Values(ParamPartition::kPartitioned, ParamPartition::kMinSize,
                                                              ParamPartition::kMaxSize)));

TEST(ParameterShard, Bfloat16OnTheWireRoundsOnceEachWay) {
  const OptimizerSpec sgd{.rule = Sgd{.learning_rate = 1}};
  Server exact(table_model(true, sgd), {.workers = 1}, 2);
  Server rounded(table_model(true, sgd), {.workers = 1, .transfer = DType::kBF16}, 2);
  Rng rng(6);
  std::vector<double> travelled(16 + 48);
  for (int i = 0; i < 50; ++i) {
    std::vector<float> flat(16 + 48);
    for (std::size_t k = 0; k < 51; ++k) {
      if (k < 3 || k >= 16) flat[k] = static_cast<float>(rng.normal());
      travelled[k] += std::abs(flat[k]);
    }
    exact.push_all(flat);
    rounded.push_all(flat, DType::kBF16);
  }
  const auto expected = exact.flat(), got = rounded.flat();
  for (std::size_t k = 0; k < expected.size(); ++k) {
    // Rounding to 8 bits is off by at most 2^-9 of a value; gradients add up in float32, and the sum is rounded again.
    EXPECT_NEAR(got[k], expected[k], (travelled[k] + std::abs(expected[k])) / 512 + 1e-5) << k;
  }
  EXPECT_NE(got, expected);
}

TEST(ParameterShard, TargetsAndAveragesFollowOnTheShard) {
  ServedModel model = pair_model();
  model.add({.name = "pair.target", .layout = model.groups[0].layout, .online = 0, .every_updates = 2});
  model.add({.name = "pair.average", .layout = model.groups[0].layout, .online = 0, .decay = 0.5});
  Server server(std::move(model), {.workers = 1}, 2);
  std::vector<float> flat(48);
  flat[0] = -2;
  flat[1] = -8;
  std::vector<std::array<float, 3>> seen;
  for (int i = 0; i < 4; ++i) {
    server.push_all(flat);
    const auto now = server.flat();
    seen.push_back({now[0], now[16], now[32]});
    EXPECT_EQ(now[1], 4 * now[0]);
    EXPECT_EQ(now[17], 4 * now[16]) << "the other shard's half";
    EXPECT_EQ(now[33], 4 * now[32]);
  }
  EXPECT_THAT(seen, ElementsAre(std::array{1.0f, 0.0f, 0.5f}, std::array{2.0f, 2.0f, 1.25f},
                                std::array{3.0f, 2.0f, 2.125f}, std::array{4.0f, 4.0f, 3.0625f}));
}

TEST(ParameterShard, SavedStateGoesOnBitForBit) {
  for (const DType transfer : {DType::kF32, DType::kBF16}) {
    const OptimizerSpec adam{.rule = Adam{.learning_rate = 0.1}, .schedule = {.warmup_steps = 8}};
    Server server(table_model(true, adam), {.workers = 1, .transfer = transfer}, 2);
    Server restored(table_model(true, adam), {.workers = 1, .transfer = transfer}, 2);
    Rng rng(7);
    std::vector<std::vector<float>> gradients;
    for (int i = 0; i < 10; ++i) {
      std::vector<float> flat(16 + 48);
      for (std::size_t k : {0, 1, 2, 20, 41, 50}) flat[k] = static_cast<float>(rng.normal());
      gradients.push_back(flat);
    }
    for (int i = 0; i < 5; ++i) server.push_all(gradients[static_cast<std::size_t>(i)]);
    const auto pulled = server.flat();
    for (std::size_t s = 0; s < 2; ++s) {
      EXPECT_EQ(restored[s].restore(server[1 - s].save(), 5, server[1 - s].fingerprint()).error().code,
                Code::kShapeMismatch)
          << "the other shard's";
      ASSERT_TRUE(restored[s].restore(server[s].save(), 5, server[s].fingerprint()).ok());
    }
    EXPECT_EQ(restored.flat(), pulled);
    for (int i = 5; i < 10; ++i) {
      server.push_all(gradients[static_cast<std::size_t>(i)]);
      restored.push_all(gradients[static_cast<std::size_t>(i)]);
    }
    EXPECT_EQ(restored.flat(), server.flat());
    EXPECT_EQ(restored[0].version(), 10);
  }
}

TEST(ParameterShard, WhatIsNotItsOwnChangesNothing) {
  Server server(table_model(true, {.rule = Sgd{}}), {.workers = 2}, 2);
  const std::vector<float> flat(16 + 48, 1);
  EXPECT_THAT(server[1].push(server.gradient(0, flat, 0, 0)).error().message, HasSubstr("got piece 0 of 2"));
  EXPECT_THAT(server[0].push(server.gradient(0, flat, 2, 0)).error().message, HasSubstr("got worker 2"));

  const ShardPlan& plan = server[0].plan();
  const messages::GradientInfo info{.model_hash = server.model->hash(), .piece = 0, .pieces = 2};
  const auto with_row = [&](std::uint32_t table, std::uint32_t columns, std::uint32_t row, std::int64_t dense) {
    const std::array rows = {row};
    const std::array sparse = {messages::SparseRows{.table = table, .columns = columns, .rows = rows, .values = {}}};
    auto builder = messages::GradientBuilder::make(server.pool, DType::kF32, dense, sparse).value();
    EXPECT_TRUE(builder.write(std::vector<float>(static_cast<std::size_t>(dense))));
    EXPECT_TRUE(builder.write_rows(0, std::vector<float>(columns)));
    return server[0].push(messages::read_gradient(std::move(builder).finish(info)).value());
  };
  EXPECT_TRUE(with_row(0, 5, 0, plan.dense_elements).ok());
  EXPECT_THAT(with_row(0, 5, 6, plan.dense_elements).error().message, HasSubstr("1 rows of table 0"))
      << "the last row is the other shard's";
  EXPECT_THAT(with_row(0, 4, 0, plan.dense_elements).error().message, HasSubstr("4 columns"));
  EXPECT_THAT(with_row(1, 5, 0, plan.dense_elements).error().message, HasSubstr("table 1"));
  EXPECT_THAT(with_row(0, 5, 0, plan.dense_elements + 1).error().message, HasSubstr("dense elements"));
  EXPECT_EQ(server[0].version(), 1) << "of the one that was right";
}

TEST(ParameterShard, LarsTakesTheNormsOfTheMeanGradientAndOfWholeVariables) {
  const Lars lars{.learning_rate = 0.5, .momentum = 0, .weight_decay = 0.25, .trust_coefficient = 0.125};
  constexpr std::int64_t kWeights = 50 * 60, kBias = 16;  // more than are added up at once
  Rng rng(5);
  const auto draw = [&] {
    std::vector<float> values(kBias + kWeights + 8);  // with the padding
    for (std::int64_t i = 0; i < kBias + kWeights; ++i) {
      if (i < 3 || i >= kBias) values[static_cast<std::size_t>(i)] = static_cast<float>(rng.normal());
    }
    return values;
  };
  const std::vector<float> before = draw(), first = draw(), second = draw();
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    ServedModel model;
    ServedGroup group{.name = "g"};
    group.layout.group = "g";
    group.layout.add("g/bias", {3});
    group.layout.add("g/weight", {50, 60});
    group.optimizer = {.rule = lars};
    model.add(std::move(group));
    ASSERT_EQ(model.elements, std::ssize(before));
    Server server(std::move(model), {.workers = 2, .gradients_per_update = 2});
    server[0].load(0, before);
    EXPECT_EQ(server[0].push(server.gradient(0, first, 0, 0, 1, dtype)).value(), GradientOutcome::kTaken);
    EXPECT_EQ(server[0].push(server.gradient(0, second, 1, 0, 3, dtype)).value(), GradientOutcome::kApplied);
    const std::vector<float> got = server.flat();
    std::vector<double> mean(before.size());
    double squares = 0, value_squares = 0;
    for (std::size_t i = 0; i < mean.size(); ++i) {
      mean[i] = 0.25 * first[i] + 0.75 * second[i];
      if (i < kBias) continue;
      squares += mean[i] * mean[i];
      value_squares += static_cast<double>(before[i]) * before[i];
    }
    const double w = std::sqrt(value_squares), local = 0.125 * w / (std::sqrt(squares) + 0.25 * w);
    for (std::size_t i = 0; i < mean.size(); ++i) {
      const double expected =
          i < kBias ? before[i] - 0.5 * mean[i] : before[i] - 0.5 * local * (mean[i] + 0.25 * before[i]);
      // Values of size 1 to 4; bfloat16 gradients are off by 2^-9 of themselves.
      EXPECT_NEAR(got[i], expected, dtype == DType::kF32 ? 1e-6 : 1e-2) << i;
    }
  }
}

}  // namespace
}  // namespace troupe::learner
