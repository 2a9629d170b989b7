// Inserting into and sampling from a full table of a million one-step transitions (observation 17, action 6), in the
// learner's own memory: what replay costs before any network or actor. Rows are items a second.
#include <benchmark/benchmark.h>

#include <vector>

#include <troupe/core/rng.hpp>
#include <troupe/replay/n_step_adder.hpp>
#include <troupe/replay/table.hpp>

namespace troupe::replay {
namespace {

constexpr std::int64_t kCapacity = 1'000'000;
constexpr std::int64_t kInsertRows = 1000;
constexpr std::int64_t kBatch = 256;

Signature signature() {
  return transition_signature({{"observation", DType::kF32, {17}}}, {{"action", DType::kF32, {6}}});
}

void fill(BatchBuffer& rows) {
  Rng rng(1);
  for (std::size_t column = 0; column < signature().size(); ++column) {
    for (float& value : rows.mutable_view().as<float>(column)) value = static_cast<float>(rng.normal());
  }
}

/// A full table with the given sampler. One for each sampler and program, as filling takes longer than a row.
Table& full_table(SelectorKind sampler) {
  auto make = [](SelectorKind kind) {
    auto table = std::move(Table::make({.signature = signature(),
                                        .max_items = kCapacity,
                                        .sampler = {.kind = kind, .priority_exponent = 0.6}}))
                     .value();
    BatchBuffer rows(signature(), kInsertRows);
    fill(rows);
    Rng rng(2);
    std::vector<double> priorities(kInsertRows);
    while (table->info().items < kCapacity) {
      for (double& priority : priorities) priority = rng.uniform();
      (void)table->insert(rows.view(), priorities).value();
    }
    return table;
  };
  static const auto uniform = make(SelectorKind::kUniform);
  if (sampler == SelectorKind::kUniform) return *uniform;
  static const auto prioritized = make(SelectorKind::kPrioritized);
  return *prioritized;
}

void finish(benchmark::State& state, std::int64_t items) {
  state.SetItemsProcessed(state.iterations() * items);
  state.SetLabel("items/s");
}

void insert(benchmark::State& state, std::int64_t count) {
  Table& table = full_table(SelectorKind::kUniform);
  BatchBuffer rows(signature(), count);
  fill(rows);
  const BatchView view = rows.view();
  for (auto _ : state) (void)table.insert(view, {}).value();
  finish(state, count);
}
void insert_1step(benchmark::State& state) { insert(state, 1); }
void insert_batch(benchmark::State& state) { insert(state, kInsertRows); }
BENCHMARK(insert_1step)->UseRealTime();
BENCHMARK(insert_batch)->UseRealTime();

void sample_uniform_256(benchmark::State& state) {
  Table& table = full_table(SelectorKind::kUniform);
  BatchBuffer batch(signature(), kBatch);
  std::vector<SampledItem> items(kBatch);
  for (auto _ : state) {
    table.sample(batch.mutable_view(), items).value();
    benchmark::DoNotOptimize(batch.view().columns[0].data());
  }
  finish(state, kBatch);
}
BENCHMARK(sample_uniform_256)->UseRealTime();

/// Each batch gets new priorities, as prioritised learning does.
void sample_prioritized_256(benchmark::State& state) {
  Table& table = full_table(SelectorKind::kPrioritized);
  BatchBuffer batch(signature(), kBatch);
  std::vector<SampledItem> items(kBatch);
  std::vector<Key> keys(kBatch);
  std::vector<double> priorities(kBatch);
  Rng rng(3);
  for (double& priority : priorities) priority = rng.uniform();
  for (auto _ : state) {
    table.sample(batch.mutable_view(), items).value();
    for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = items[i].key;
    std::swap(priorities[rng.below(kBatch)], priorities[0]);
    (void)table.update_priorities(keys, priorities).value();
  }
  finish(state, kBatch);
}
BENCHMARK(sample_prioritized_256)->UseRealTime();

}  // namespace
}  // namespace troupe::replay

BENCHMARK_MAIN();
