// A table on a GPU as anybody uses a table, against the host's, on the emulated device. The suites of table_test.cpp,
// table_model_test.cpp and table_image_test.cpp hold for it too; the learner's path is in gpu_launch_test.cpp.
#include <troupe/replay/gpu_table.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <tuple>

#include <troupe/tests/replay/chi_squared.hpp>
#include <troupe/tests/replay/gpu_fixture.hpp>

namespace troupe::replay {
namespace {

using testing::HasSubstr;

class GpuTableDraws : public GpuTableTest,
                      public testing::WithParamInterface<std::tuple<SelectorKind, double, std::int64_t>> {};

TEST_P(GpuTableDraws, AreTheHostTablesBitForBit) {
  const auto [sampler, exponent, capacity] = GetParam();
  const TableOptions options{.signature = test_signature(),
                             .max_items = capacity,
                             .sampler = {.kind = sampler, .priority_exponent = exponent},
                             .seed = 3};
  const auto host = Table::make(options).value();
  const auto on_gpu = make_on_gpu(options);
  Table* const both[] = {host.get(), on_gpu.get()};
  Rng rng(static_cast<std::uint64_t>(capacity));
  std::int64_t id = 0;
  std::vector<Key> drawn;
  for (int step = 0; step < 120 && !HasFatalFailure(); ++step) {
    const auto count = static_cast<std::int64_t>(1 + rng.below(static_cast<std::uint64_t>(capacity / 3 + 2)));
    if (const std::uint64_t choice = rng.below(6); choice < 2 || id == 0) {
      insert_some(rng, id, count, both);
      id += count;
    } else if (choice < 4) {
      const auto rows = static_cast<std::int64_t>(1 + rng.below(40));
      const auto expected = must_sample(*host, rows), got = must_sample(*on_gpu, rows);
      drawn.clear();
      for (std::size_t i = 0; i < got.size() && !HasFatalFailure(); ++i) {
        ASSERT_EQ(got[i].id, expected[i].id);
        expect_same(got[i].item, expected[i].item);
        drawn.push_back(got[i].item.key);
      }
    } else {
      // Keys that are gone, that come twice, and that never were.
      std::vector<Key> keys = drawn;
      keys.push_back(static_cast<Key>(id));
      std::vector<double> priorities(keys.size());
      const bool none = choice == 5 && rng.below(3) == 0;
      for (double& priority : priorities) priority = none || rng.below(4) == 0 ? 0 : rng.uniform();
      ASSERT_EQ(on_gpu->update_priorities(keys, priorities).value(), host->update_priorities(keys, priorities).value());
    }
    ASSERT_EQ(on_gpu->mass().value(), host->mass().value());
    ASSERT_EQ(on_gpu->info().items, host->info().items);
    ASSERT_EQ(on_gpu->info().evictions, host->info().evictions);
  }
  EXPECT_EQ(on_gpu->save(), host->save());
}

// Around the nodes of 8 children, of one level and several.
INSTANTIATE_TEST_SUITE_P(Sizes, GpuTableDraws,
                         testing::Combine(testing::Values(SelectorKind::kPrioritized), testing::Values(1.0),
                                          testing::Values(1, 2, 7, 8, 9, 63, 64, 65, 513, 700)));
INSTANTIATE_TEST_SUITE_P(Exponents, GpuTableDraws,
                         testing::Combine(testing::Values(SelectorKind::kPrioritized), testing::Values(0.0, 0.6),
                                          testing::Values(100)));
INSTANTIATE_TEST_SUITE_P(Samplers, GpuTableDraws,
                         testing::Combine(testing::Values(SelectorKind::kUniform, SelectorKind::kFifo,
                                                          SelectorKind::kLifo),
                                          testing::Values(1.0), testing::Values(1, 20)));

TEST_F(GpuTableTest, DrawsUniformlyAndAsTheHostWhenAllPrioritiesAreZero) {
  const TableOptions options{.max_items = 20, .sampler = {.kind = SelectorKind::kPrioritized}, .seed = 8};
  const auto host = make_table(options);
  const auto on_gpu = make_on_gpu(options);
  for (std::int64_t id = 0; id < 25; ++id) {
    ASSERT_TRUE(insert_one(*host, id, 0).ok());
    ASSERT_TRUE(insert_one(*on_gpu, id, 0).ok());
  }
  const auto expected = must_sample(*host, 500), got = must_sample(*on_gpu, 500);
  for (std::size_t i = 0; i < got.size(); ++i) expect_same(got[i].item, expected[i].item);
  EXPECT_EQ(on_gpu->mass().value(), 20);
}

TEST_F(GpuTableTest, DrawsInProportionToPriorityToTheExponent) {
  const auto table = make_on_gpu(
      {.max_items = 90, .sampler = {.kind = SelectorKind::kPrioritized, .priority_exponent = 0.6}, .seed = 4});
  std::vector<double> expected;
  for (std::int64_t id = 0; id < 90; ++id) {
    const auto priority = static_cast<double>(id % 7);
    ASSERT_TRUE(insert_one(*table, id, priority).ok());
    expected.push_back(priority == 0 ? 0 : std::pow(priority, 0.6));
  }
  const double sum = std::accumulate(expected.begin(), expected.end(), 0.0);
  for (double& probability : expected) probability /= sum;
  std::vector<std::int64_t> counts(90);
  for (int batch = 0; batch < 40; ++batch) {
    for (const Drawn& drawn : must_sample(*table, 1000)) {
      ++counts[drawn.item.key];
      ASSERT_NEAR(drawn.item.probability, expected[drawn.item.key], 1e-12);  // rounding of a sum
    }
  }
  const auto possible = std::ranges::count_if(expected, [](double p) { return p > 0; });
  EXPECT_LT(chi_squared(counts, expected), chi_squared_bound(static_cast<double>(possible - 1)));
}

TEST_F(GpuTableTest, TakesMoreRowsThanItsStagingMemoryHoldsAndGivesMoreThanATurn) {
  // Some 64 rows of 32 KiB in each half of the staging memory, and as many in a turn to the host.
  const Signature signature{{"pixels", DType::kU8, {32 * 1024}}, {"odd", DType::kU8, {3}}};
  const TableOptions options{.signature = signature, .max_items = 300, .seed = 6};
  const auto host = Table::make(options).value();
  const auto on_gpu = make_on_gpu(options);
  BatchBuffer batch(signature, 50);
  for (int round = 0; round < 10; ++round) {
    for (std::size_t c = 0; c < 2; ++c) {
      const auto column = batch.mutable_view().columns[c];
      for (std::size_t i = 0; i < column.size(); i += 1 + i % 97) column[i] = static_cast<std::byte>(i * 7 + c + round);
    }
    ASSERT_TRUE(host->insert(batch.view(), {}).ok());
    ASSERT_TRUE(on_gpu->insert(batch.view(), {}).ok());
  }
  EXPECT_TRUE(on_gpu->save() == host->save());
  BatchBuffer expected(signature, 200), got(signature, 200);
  std::vector<SampledItem> items(200);
  ASSERT_TRUE(host->sample(expected.mutable_view(), items).ok());
  ASSERT_TRUE(on_gpu->sample(got.mutable_view(), items).ok());
  for (std::size_t c = 0; c < 2; ++c)
    EXPECT_TRUE(std::ranges::equal(got.view().columns[c], expected.view().columns[c]));
}

TEST_F(GpuTableTest, HasAnyNumberOfColumns) {
  for (const std::size_t count : {16, 17, 40}) {
    Signature signature;
    for (std::size_t c = 0; c < count; ++c) {
      signature.push_back({"column" + std::to_string(c),
                           c % 3 == 0 ? DType::kU8 : DType::kF32,
                           {static_cast<std::int64_t>(1 + c % 5)}});
    }
    const TableOptions options{.signature = signature, .max_items = 10};
    const auto host = Table::make(options).value();
    const auto on_gpu = make_on_gpu(options);
    BatchBuffer in(signature, 7), expected(signature, 30), got(signature, 30);
    std::vector<SampledItem> items(30);
    Rng rng(count);
    for (const auto& column : in.mutable_view().columns) {
      for (std::byte& each : column) each = static_cast<std::byte>(rng());
    }
    for (Table* table : {host.get(), static_cast<Table*>(on_gpu.get())}) {
      ASSERT_TRUE(table->insert(in.view(), {}).ok());
      ASSERT_TRUE(table->sample((table == host.get() ? expected : got).mutable_view(), items).ok());
    }
    for (std::size_t c = 0; c < count; ++c) {
      EXPECT_TRUE(std::ranges::equal(got.view().columns[c], expected.view().columns[c])) << c << " of " << count;
    }
  }
}

TEST_F(GpuTableTest, WorksWhateverGpuTheThreadUsedLast) {
  const auto second = gpu::Gpu::open(1).value();
  const TableOptions options{
      .signature = test_signature(), .max_items = 10, .sampler = {.kind = SelectorKind::kPrioritized}};
  {
    const auto table = GpuTable::make(options, second).value();
    TroupeCudaStream* stream = nullptr;
    ASSERT_EQ(api().make_stream(&stream), 0);
    const auto priorities = second->allocate(4 * sizeof(float), "a test").value();
    const DeviceBatch batch(*second, 4);
    ASSERT_TRUE(gpu_->use().ok());
    Rng rng(1);
    insert_some(rng, 0, 15, std::vector<Table*>{table.get()});
    const std::function<bool()> calls[] = {
        [&] { return table->begin_launch(1, 4, stream).ok(); },
        [&] { return table->enqueue_draw(0, batch.columns(), nullptr, 0, stream).ok(); },
        [&] { return table->enqueue_update(0, priorities.as<float>(), nullptr, stream).ok(); },
        [&] { return table->mass().value() > 0; },
        [&] { return sample(*table, 3).ok(); },
        [&] { return insert_one(*table, 20).ok(); },
        [&] { return table->update_priorities(std::vector<Key>{15}, std::vector<double>{1}).ok(); },
        [&] { return table->restore(table->save()).ok(); },
    };
    for (const auto& call : calls) {
      ASSERT_TRUE(gpu_->use().ok());
      EXPECT_TRUE(call()) << &call - calls << ": " << emulator().fault();
    }
    ASSERT_TRUE(second->use().ok());
    EXPECT_EQ(api().destroy_stream(stream), 0);
    ASSERT_TRUE(gpu_->use().ok());
  }
  ASSERT_TRUE(gpu_->use().ok());
}

TEST_F(GpuTableTest, ItsImagesAreTheHostTables) {
  const TableOptions options{
      .signature = test_signature(), .max_items = 37, .sampler = {.kind = SelectorKind::kPrioritized}, .seed = 2};
  for (const std::int64_t inserts : {0, 20, 100}) {
    auto host = Table::make(options).value();
    Rng rng(1);
    if (inserts > 0) {
      insert_some(rng, 0, inserts, std::vector<Table*>{host.get()});
      must_sample(*host, 50);
    }
    const auto on_gpu = make_on_gpu(options);
    insert_some(rng, 500, 60, std::vector<Table*>{on_gpu.get()});  // to be replaced
    ASSERT_TRUE(on_gpu->restore(host->save()).ok());
    EXPECT_EQ(on_gpu->save(), host->save());
    EXPECT_EQ(on_gpu->save_items(), host->save_items());
    Table* const both[] = {host.get(), on_gpu.get()};
    insert_some(rng, 200, 30, both);
    const auto expected = must_sample(*host, 64), got = must_sample(*on_gpu, 64);
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].id, expected[i].id);
      expect_same(got[i].item, expected[i].item);
    }
    const auto back = Table::make(options).value();
    ASSERT_TRUE(back->restore(on_gpu->save()).ok());
    EXPECT_EQ(back->save(), host->save());
  }
}

TEST_F(GpuTableTest, RefusesWhatOnlyTheGpuWouldKnow) {
  TableOptions options{.name = "main", .signature = test_signature(), .max_items = 10};
  for (const SelectorKind kind : {SelectorKind::kLifo, SelectorKind::kUniform, SelectorKind::kPrioritized}) {
    options.remover.kind = kind;
    const auto refused = GpuTable::make(options, gpu_);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
    EXPECT_THAT(refused.error().message,
                HasSubstr("table \"main\" on cuda:0: remover is " + std::string(to_string(kind)) + ", expected fifo"));
  }
  options.remover.kind = SelectorKind::kFifo;
  options.max_times_sampled = 2;
  EXPECT_THAT(GpuTable::make(options, gpu_).error().message, HasSubstr("max_times_sampled is 2, expected 0"));
  options.max_times_sampled = 0;
  options.sampler.kind = SelectorKind::kMaxHeap;
  const auto refused = GpuTable::make(options, gpu_);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("sampler is max_heap, expected uniform, prioritized, fifo or lifo"));
}

TEST_F(GpuTableTest, TakesNoItemsFromTheMiddle) {
  const TableOptions options{.name = "main", .signature = test_signature(), .max_items = 10};
  const auto table = GpuTable::make(options, gpu_).value();
  insert_one(*table, 1).value();
  EXPECT_THAT(table->erase(std::vector<Key>{0}).error().message, HasSubstr("table \"main\": on a GPU items leave"));
  EXPECT_EQ(table->reset().error().code, Code::kInvalidArgument);
  EXPECT_EQ(table->info().items, 1);
  auto host = make_table(options);
  for (std::int64_t id = 0; id < 3; ++id) insert_one(*host, id).value();
  host->erase(std::vector<Key>{1}).value();
  EXPECT_EQ(table->restore(host->save()).error().code, Code::kShapeMismatch);
  host->reset().value();
  EXPECT_EQ(table->restore(host->save()).error().code, Code::kShapeMismatch);
  EXPECT_EQ(table->info().items, 1);
}

TEST_F(GpuTableTest, SaysHowManyItemsWouldFit) {
  emulator().set_memory(std::size_t{64} << 20);
  TableOptions options{.name = "main",
                       .signature = {{"pixels", DType::kU8, {10'000}}},
                       .max_items = 1'000'000,
                       .sampler = {.kind = SelectorKind::kPrioritized}};
  const auto refused = GpuTable::make(options, gpu_);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  const std::string& message = refused.error().message;
  EXPECT_THAT(message, HasSubstr("table \"main\": 1000000 items of 10000 bytes"));
  EXPECT_THAT(message, HasSubstr("0.06 GiB of 1.00 are free"));
  const std::size_t at = message.find("; max_items ");
  ASSERT_NE(at, std::string::npos) << message;
  options.max_items = std::stoll(message.substr(at + 12));
  EXPECT_GT(options.max_items, 4000);
  EXPECT_TRUE(GpuTable::make(options, gpu_).ok()) << message;
  ++options.max_items;
  EXPECT_FALSE(GpuTable::make(options, gpu_).ok()) << message;
  emulator().set_memory(1 << 20);
  EXPECT_THAT(GpuTable::make(options, gpu_).error().message, HasSubstr("not even one item would fit"));
}

TEST_F(GpuTableTest, AllocatesNothingAfterItsMaking) {
  const auto table = make_on_gpu({.max_items = 100, .sampler = {.kind = SelectorKind::kPrioritized}});
  const std::int64_t before = emulator().allocations(), alive = emulator().alive();
  Rng rng(1);
  for (std::int64_t id = 0; id < 1000; id += 50) {
    insert_some(rng, id, 50, std::vector<Table*>{table.get()});
    must_sample(*table, 300);
  }
  ASSERT_TRUE(table->restore(table->save()).ok());
  EXPECT_EQ(emulator().allocations(), before);
  EXPECT_EQ(emulator().alive(), alive);
}

TEST_F(GpuTableTest, TellsWhenTheGpuFails) {
  {
    const auto table = make_on_gpu({.max_items = 10, .sampler = {.kind = SelectorKind::kPrioritized}});
    ASSERT_TRUE(insert_one(*table, 1).ok());
    emulator().fail_kernel(0);
    const auto failed = sample(*table, 4);
    ASSERT_FALSE(failed.ok());
    EXPECT_THAT(failed.error().message, HasSubstr("cuda:0"));
    EXPECT_FALSE(sample(*table, 4).ok()) << "for good";
    const Key key = 0;
    const double priority = 1;
    EXPECT_FALSE(table->update_priorities({&key, 1}, {&priority, 1}).ok());
    EXPECT_FALSE(table->mass().ok());
    EXPECT_TRUE(table->save().empty());
    EXPECT_TRUE(table->save_items().empty());
    EXPECT_EQ(table->info().samples, 0);
    emulator().reset();  // else nothing could be released
  }
}

}  // namespace
}  // namespace troupe::replay
