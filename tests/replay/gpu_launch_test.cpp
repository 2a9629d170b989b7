// The learner's path: steps that draw, weigh and update on the GPU, recorded as a graph or not, against the calls that
// a learner with the host's table makes. The emulated device runs streams as late as it may, so order that no event
// gives is missing here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include <troupe/tests/replay/gpu_fixture.hpp>

namespace troupe::replay {
namespace {

using testing::Each;
using testing::HasSubstr;

constexpr double kImportance = 0.4;

TroupeCudaControl control_of(bool skip) {
  TroupeCudaControl control{};
  control.skip = skip ? 1 : 0;
  return control;
}

/// As a trainer weighs a batch of one table.
std::vector<float> weights_of(const std::vector<Drawn>& drawn, double exponent) {
  std::vector<float> weights;
  float largest = 0;
  for (const Drawn& each : drawn) {
    weights.push_back(static_cast<float>(
        std::pow(1 / (static_cast<double>(each.item.table_items) * each.item.probability), exponent)));
    largest = std::max(largest, weights.back());
  }
  for (float& weight : weights) weight /= largest;
  return weights;
}

class GpuLaunch : public GpuTableTest {
 protected:
  TableOptions options(std::int64_t capacity, SelectorKind sampler = SelectorKind::kPrioritized) {
    return {.signature = test_signature(), .max_items = capacity, .sampler = {.kind = sampler}, .seed = 12};
  }
  /// The kernels of one step.
  void enqueue(GpuTable& table, std::int64_t step, const DeviceBatch& to, float* weights, const float* priorities,
               const TroupeCudaControl* control = nullptr) {
    const Status drawn = table.enqueue_draw(step, to.columns(), weights, kImportance, stream_);
    ASSERT_TRUE(drawn.ok()) << drawn.error().message;
    const Status updated = table.enqueue_update(step, priorities, control, stream_);
    ASSERT_TRUE(updated.ok()) << updated.error().message;
  }
};

/// What steps of `rows` rows do to the host's table and give.
struct Expected {
  std::vector<std::vector<std::int64_t>> ids;
  std::vector<std::vector<float>> weights;
};
Expected step_on_host(Table& host, const std::vector<std::vector<float>>& priorities) {
  Expected expected;
  for (const std::vector<float>& of_step : priorities) {
    const auto drawn = must_sample(host, static_cast<std::int64_t>(of_step.size()));
    std::vector<Key> keys;
    expected.ids.emplace_back();
    for (const Drawn& each : drawn) {
      expected.ids.back().push_back(each.id);
      keys.push_back(each.item.key);
    }
    expected.weights.push_back(weights_of(drawn, kImportance));
    EXPECT_EQ(host.update_priorities(keys, std::vector<double>(of_step.begin(), of_step.end())).value(), 0);
  }
  return expected;
}

TEST_F(GpuLaunch, AGraphOfStepsDoesWhatCallsDo) {
  // A batch is larger than some tables, so that rows come several times in it.
  for (const std::int64_t capacity : {3, 30, 700}) {
    constexpr std::int64_t kSteps = 3, kRows = 37;
    const auto host = Table::make(options(capacity)).value();
    const auto table = make_on_gpu(options(capacity));
    Table* const both[] = {host.get(), table.get()};
    std::vector<std::unique_ptr<DeviceBatch>> batches;
    std::vector<gpu::GpuMemory> weights, priorities;
    std::vector<std::vector<float>> values;
    Rng rng(7);
    for (std::int64_t step = 0; step < kSteps; ++step) {
      batches.push_back(std::make_unique<DeviceBatch>(*gpu_, kRows));
      weights.push_back(device(kRows * sizeof(float)));
      values.emplace_back();
      for (std::int64_t i = 0; i < kRows; ++i) values.back().push_back(static_cast<float>(rng.uniform()));
      values.back()[3] = 0;
      priorities.push_back(upload(values.back()));
    }
    TroupeCudaGraph* graph = nullptr;
    for (int launch = 0; launch < 6; ++launch) {
      SCOPED_TRACE(testing::Message() << "capacity " << capacity << ", launch " << launch);
      // Also more than the table takes, and nothing.
      if (launch != 4) insert_some(rng, 100 * launch, 2 + 7 * launch * launch, both);
      ASSERT_TRUE(table->begin_launch(kSteps, kRows, stream_).ok());
      if (launch == 1) {
        ASSERT_EQ(api().begin_capture(stream_), 0);
      }
      if (launch <= 1) {
        for (std::size_t step = 0; step < kSteps; ++step) {
          enqueue(*table, static_cast<std::int64_t>(step), *batches[step], weights[step].as<float>(),
                  priorities[step].as<float>());
        }
      }
      if (launch == 1) {
        ASSERT_EQ(api().end_capture(stream_, &graph), 0) << emulator().fault();
      }
      if (launch >= 1) {
        ASSERT_EQ(api().launch_graph(graph, stream_), 0);
      }
      const Expected expected = step_on_host(*host, values);
      for (std::size_t step = 0; step < kSteps; ++step) {
        EXPECT_EQ(batches[step]->ids(*gpu_, stream_), expected.ids[step]);
        EXPECT_EQ(download<float>(weights[step].get(), kRows), expected.weights[step]);
      }
      EXPECT_EQ(table->mass().value(), host->mass().value());
      EXPECT_EQ(table->info().samples, host->info().samples);
    }
    EXPECT_TRUE(table->save() == host->save()) << "priorities, times sampled, generator";
    EXPECT_EQ(must_sample(*table, 20).back().item.key, must_sample(*host, 20).back().item.key);
    EXPECT_EQ(api().destroy_graph(graph), 0);
  }
}

TEST_F(GpuLaunch, ServesOtherSamplersToo) {
  for (const SelectorKind sampler : {SelectorKind::kUniform, SelectorKind::kFifo, SelectorKind::kLifo}) {
    const auto host = Table::make(options(20, sampler)).value();
    const auto table = make_on_gpu(options(20, sampler));
    Table* const both[] = {host.get(), table.get()};
    Rng rng(3);
    const std::vector<float> values(300, 0.5F);  // more rows than a block has threads
    const gpu::GpuMemory priorities = upload(values), weights = device(300 * sizeof(float));
    const DeviceBatch batch(*gpu_, 300);
    for (int launch = 0; launch < 4; ++launch) {
      insert_some(rng, 50 * launch, 11, both);
      ASSERT_TRUE(table->begin_launch(1, 300, stream_).ok());
      enqueue(*table, 0, batch, weights.as<float>(), priorities.as<float>());
      const Expected expected = step_on_host(*host, {values});
      EXPECT_EQ(batch.ids(*gpu_, stream_), expected.ids[0]);
      EXPECT_EQ(download<float>(weights.get(), 300), expected.weights[0]);
    }
    EXPECT_TRUE(table->save() == host->save());
  }
}

TEST_F(GpuLaunch, TheLastDrawOfARowSaysItsPriority) {
  const auto table = make_on_gpu(options(1));
  ASSERT_TRUE(insert_one(*table, 5).ok());
  std::vector<float> values(100);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const gpu::GpuMemory priorities = upload(values);
  const DeviceBatch batch(*gpu_, 100);
  ASSERT_TRUE(table->begin_launch(1, 100, stream_).ok());
  enqueue(*table, 0, batch, nullptr, priorities.as<float>());
  EXPECT_EQ(table->mass().value(), 99);
  const Drawn drawn = must_sample(*table, 1)[0];
  EXPECT_EQ(drawn.item.priority, 99);
  EXPECT_EQ(drawn.item.times_sampled, 101);
}

TEST_F(GpuLaunch, ASkippedStepChangesNoPriority) {
  const auto table = make_on_gpu(options(10));
  Rng rng(1);
  insert_some(rng, 0, 10, std::vector<Table*>{table.get()});
  const double before = table->mass().value();
  const gpu::GpuMemory priorities = upload(std::vector<float>(50, 9.0F));
  const gpu::GpuMemory skip = upload(std::vector{control_of(true)}), go_on = upload(std::vector{control_of(false)});
  const DeviceBatch batch(*gpu_, 50);
  ASSERT_TRUE(table->begin_launch(1, 50, stream_).ok());
  enqueue(*table, 0, batch, nullptr, priorities.as<float>(), skip.as<TroupeCudaControl>());
  EXPECT_EQ(table->mass().value(), before);
  EXPECT_EQ(table->info().samples, 50) << "it has drawn";
  ASSERT_TRUE(table->begin_launch(1, 50, stream_).ok());
  enqueue(*table, 0, batch, nullptr, priorities.as<float>(), go_on.as<TroupeCudaControl>());
  EXPECT_NE(table->mass().value(), before);
}

TEST_F(GpuLaunch, WhatIsNoPriorityBecomesZero) {
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  for (const float bad : {-1.0F, -kInfinite, kInfinite, static_cast<float>(NAN), -0.0F}) {
    const auto table = make_on_gpu(options(1));
    ASSERT_TRUE(insert_one(*table, 5, 3).ok());
    const gpu::GpuMemory priorities = upload(std::vector<float>{bad});
    const DeviceBatch batch(*gpu_, 1);
    ASSERT_TRUE(table->begin_launch(1, 1, stream_).ok());
    enqueue(*table, 0, batch, nullptr, priorities.as<float>());
    EXPECT_EQ(table->mass().value(), 1) << "one item, of weight 0";
    EXPECT_EQ(must_sample(*table, 1)[0].item.priority, 0);
  }
}

TEST_F(GpuLaunch, GathersOnlyTheColumnsThatAreWanted) {
  const auto table = make_on_gpu(options(4));
  ASSERT_TRUE(insert_one(*table, 9).ok());
  const gpu::GpuMemory reward = device(8);
  void* const columns[] = {nullptr, nullptr, reward.get()};
  ASSERT_TRUE(table->begin_launch(1, 1, stream_).ok());
  const std::int64_t before = emulator().launches();
  ASSERT_TRUE(table->enqueue_draw(0, columns, nullptr, 0, stream_).ok());
  EXPECT_EQ(emulator().launches() - before, 2);
  ASSERT_TRUE(table->enqueue_update(0, reward.as<float>(), nullptr, stream_).ok());
  EXPECT_EQ(emulator().launches() - before, 3);
  EXPECT_THAT(download<double>(reward.get(), 1), Each(9.0));
}

TEST_F(GpuLaunch, RowsThatComeWhileItIsUnderWayAreNotSeenInIt) {
  // 8 KiB rows: 255 of them fill a half of the staging memory.
  const Signature signature{{"pixels", DType::kU8, {8000}}, {"id", DType::kI64, {}}};
  const auto table = make_on_gpu({.signature = signature, .max_items = 300, .seed = 1});
  BatchBuffer one(signature, 1);
  const auto insert = [&](std::int64_t from, std::int64_t count) {
    for (std::int64_t id = from; id < from + count; ++id) {
      one.mutable_view().as<std::int64_t>(1)[0] = id;
      std::ranges::fill(one.mutable_view().columns[0], static_cast<std::byte>(id % 251));
      ASSERT_TRUE(table->insert(one.view(), {}).ok());
    }
  };
  constexpr std::size_t kRows = 64;
  const gpu::GpuMemory ids = device(kRows * 8), pixels = device(kRows * 8000);
  void* const columns[] = {pixels.get(), ids.get()};
  const auto drawn_from = [&](std::int64_t low, std::int64_t high) {
    const auto got = download<std::int64_t>(ids.get(), kRows);
    const auto bytes = download<std::uint8_t>(pixels.get(), kRows * 8000);
    for (std::size_t i = 0; i < kRows; ++i) {
      ASSERT_GE(got[i], low);
      ASSERT_LT(got[i], high);
      for (const std::size_t at : {0, 4001, 7999}) ASSERT_EQ(bytes[i * 8000 + at], got[i] % 251);
    }
  };
  insert(0, 300);
  for (int round = 0; round < 3; ++round) {
    const std::int64_t end = 300 + 2000 * round;
    // Begun, and not run: nobody has waited. Meanwhile the ring is filled more than six times, by all of the staging
    // memory again and again; then somebody waits for those rows.
    ASSERT_TRUE(table->begin_launch(1, kRows, stream_).ok());
    ASSERT_TRUE(table->enqueue_draw(0, columns, nullptr, 0, stream_).ok());
    insert(end, 2000);
    std::vector<std::int64_t> read(300);
    BatchBuffer all(signature, 300);
    std::vector<double> priorities(300);
    ASSERT_TRUE(table->read(static_cast<Key>(end + 1700), all.mutable_view(), priorities).ok());
    for (std::size_t i = 0; i < 300; ++i) {
      ASSERT_EQ(all.view().as<std::int64_t>(1)[i], end + 1700 + static_cast<std::int64_t>(i));
      ASSERT_EQ(all.view().as<std::uint8_t>(0)[i * 8000 + 77], all.view().as<std::int64_t>(1)[i] % 251);
    }
    drawn_from(end - 300, end);
  }
  // And those that came before it are seen, though nobody has waited for them.
  insert(10'000, 300);
  ASSERT_TRUE(table->begin_launch(1, kRows, stream_).ok());
  ASSERT_TRUE(table->enqueue_draw(0, columns, nullptr, 0, stream_).ok());
  drawn_from(10'000, 10'300);
}

TEST_F(GpuLaunch, NumbersOfSeveralLaunchesUnderWayAreKeptApart) {
  const auto host = Table::make(options(500)).value();
  const auto table = make_on_gpu(options(500));
  Table* const both[] = {host.get(), table.get()};
  Rng rng(2);
  insert_some(rng, 0, 500, both);
  std::vector<std::unique_ptr<DeviceBatch>> batches;
  for (int launch = 0; launch < 5; ++launch) {
    batches.push_back(std::make_unique<DeviceBatch>(*gpu_, 100));
    ASSERT_TRUE(table->begin_launch(1, 100, stream_).ok());
    ASSERT_TRUE(table->enqueue_draw(0, batches.back()->columns(), nullptr, 0, stream_).ok());
  }
  for (const auto& batch : batches) {
    std::vector<std::int64_t> expected;
    for (const Drawn& drawn : must_sample(*host, 100)) expected.push_back(drawn.id);
    EXPECT_EQ(batch->ids(*gpu_, stream_), expected);
  }
}

TEST_F(GpuLaunch, KeepsToTheLimiterAsOneOperation) {
  TableOptions limited = options(100);
  limited.name = "main";
  limited.limiter = sample_to_insert_ratio(4, 2, 8).value();
  const auto table = make_on_gpu(limited);
  Rng rng(1);
  const Status early = table->begin_launch(2, 4, stream_);
  ASSERT_FALSE(early.ok());
  EXPECT_EQ(early.error().code, Code::kUnavailable);
  EXPECT_EQ(early.error().message, table->sample_blocker(8));
  insert_some(rng, 0, 4, std::vector<Table*>{table.get()});
  EXPECT_EQ(table->sampleable(100), 16);
  EXPECT_EQ(table->begin_launch(17, 1, stream_).error().code, Code::kUnavailable);
  EXPECT_EQ(table->info().samples, 0) << "all or nothing";
  ASSERT_TRUE(table->begin_launch(2, 8, stream_).ok());
  EXPECT_EQ(table->info().samples, 16);
  EXPECT_EQ(api().synchronise(stream_), 0) << "the table outlives the launch";
}

TEST_F(GpuLaunch, RefusesWhatCannotWork) {
  TableOptions named = options(10);
  named.name = "main";
  const auto table = make_on_gpu(named);
  ASSERT_TRUE(insert_one(*table, 1).ok());
  for (const auto& [steps, rows] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {0, 1}, {1, 0}, {-1, 5}, {1, kMostLaunchDraws + 1}, {kMostLaunchDraws, 2}}) {
    const Status refused = table->begin_launch(steps, rows, stream_);
    ASSERT_FALSE(refused.ok()) << steps << ' ' << rows;
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
    EXPECT_THAT(refused.error().message, HasSubstr("expected 1 to 65536 draws"));
  }
  const DeviceBatch batch(*gpu_, 2);
  EXPECT_FALSE(table->enqueue_draw(0, batch.columns(), nullptr, 0, stream_).ok()) << "before any launch";
  ASSERT_TRUE(table->begin_launch(3, 2, stream_).ok());
  const Status late = table->enqueue_draw(3, batch.columns(), nullptr, 0, stream_);
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().message, "launch of table \"main\": step 3, expected 0 to 2");
  EXPECT_FALSE(table->enqueue_update(-1, nullptr, nullptr, stream_).ok());
  const Status few = table->enqueue_draw(0, batch.columns().first(2), nullptr, 0, stream_);
  ASSERT_FALSE(few.ok());
  EXPECT_EQ(few.error().message, "launch of table \"main\": 2 columns, expected 3");
  EXPECT_EQ(api().synchronise(stream_), 0) << "before the table goes";
}

}  // namespace
}  // namespace troupe::replay
