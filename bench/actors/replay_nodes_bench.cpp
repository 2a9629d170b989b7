// Replay in a process of its own: a process that inserts, one that holds the table, and one that takes batches of 256,
// as nodes of a run. First all items are inserted, then batches are drawn from them. An item is one step: for state
// rows a transition (observation 17, action 6), for pixel rows an observation of 84 x 84 x 9 bytes with action, reward
// and discount. Every item is written into its trajectory, and every batch read by the learner's end: a word of each
// cache line.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include <troupe/actors/roles/replay_actor.hpp>
#include <troupe/bench/actors/processes.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/messages/batch.hpp>
#include <troupe/messages/trajectory.hpp>
#include <troupe/replay/n_step_adder.hpp>

namespace troupe::actors {
namespace {

constexpr std::int64_t kBatch = 256;
constexpr std::int64_t kAhead = 4;  // frames under way, as in D4PG's topology
constexpr std::int64_t kPatterns = 64;
constexpr std::size_t kLine = 64;

struct Work {
  Signature signature;
  std::int64_t items;
  std::int64_t batches;
  std::int64_t trajectory_rows;
  bool noise;  ///< or smooth: what can be compressed
};

struct Measured {
  Duration first_insert;
  Duration first_batch;
  Duration last_batch;
  std::uint64_t sum;
};

/// Changing content.
void fill(const Work& work, BatchBuffer& rows) {
  Rng rng(1);
  for (std::size_t c = 0; c < work.signature.size(); ++c) {
    const auto& column = rows.mutable_view().columns[c];
    if (work.signature[c].dtype == DType::kF32) {
      for (float& value : rows.mutable_view().as<float>(c)) value = static_cast<float>(rng.normal());
      continue;
    }
    for (std::size_t i = 0; i < column.size(); ++i) {
      column[i] = static_cast<std::byte>(work.noise ? rng.below(256) : i / 251);
    }
  }
}

/// Sends trajectories until all items are out.
class Source final : public Role {
 public:
  Source(const Work& work, const InAllProcesses<Measured>& measured)
      : work_(work),
        measured_(measured),
        signature_(std::make_shared<const Signature>(work.signature)),
        patterns_(work.signature, kPatterns) {
    fill(work, patterns_);
  }

  Result<Progress> step(RoleContext& context) override {
    Outlet& outlet = context.out("trajectories");
    if (sent_ >= work_.items) return Progress::kIdle;
    if (!outlet.ready()) return Progress::kIdle;
    if (sent_ == 0) measured_->first_insert = context.clock().now();
    TROUPE_ASSIGN(auto builder, messages::TrajectoryBuilder::make(
                                    context.pool(), {signature_, work_.trajectory_rows, /*priorities=*/false}));
    for (std::int64_t row = 0; row < work_.trajectory_rows; ++row) {
      const auto pattern = static_cast<std::size_t>((sent_ + row) % kPatterns);
      for (std::size_t c = 0; c < work_.signature.size(); ++c) {
        const std::size_t bytes = work_.signature[c].bytes();
        std::memcpy(builder.rows().columns[c].data() + static_cast<std::size_t>(row) * bytes,
                    patterns_.view().columns[c].data() + pattern * bytes, bytes);
      }
    }
    sent_ += work_.trajectory_rows;
    outlet.send(std::move(builder).finish({.sequence = sequence_++}, work_.trajectory_rows));
    return Progress::kMore;
  }

 private:
  const Work& work_;
  const InAllProcesses<Measured>& measured_;
  std::shared_ptr<const Signature> signature_;
  BatchBuffer patterns_;
  std::int64_t sent_ = 0;
  std::uint64_t sequence_ = 0;
};

/// The table gives nothing before all items are there, so the first batch ends the inserts.
class Sink final : public Role {
 public:
  Sink(const Work& work, const InAllProcesses<Measured>& measured) : work_(work), measured_(measured) {}

  Result<Progress> step(RoleContext& context) override {
    if (context.in("batches").empty()) return Progress::kIdle;
    TROUPE_ASSIGN(const auto batch, messages::read_batch(context.in("batches").take()));
    if (taken_ == 0) measured_->first_batch = context.clock().now();
    std::uint64_t sum = 0;
    for (const auto& column : batch.columns().columns) {
      for (std::size_t i = 0; i < column.size(); i += kLine) sum += static_cast<std::uint64_t>(column[i]);
    }
    measured_->sum += sum;
    if (++taken_ <= work_.batches) return Progress::kMore;
    measured_->last_batch = context.clock().now();
    return Progress::kDone;
  }

 private:
  const Work& work_;
  const InAllProcesses<Measured>& measured_;
  std::int64_t taken_ = 0;
};

/// What one run measured; the sample row of a kind uses the run of its insert row.
struct Rates {
  double inserts = 0;
  double samples = 0;
};

Rates run(const Work& work) {
  const InAllProcesses<Measured> measured;
  ReplayActorOptions options;
  options.table.signature = work.signature;
  options.table.max_items = work.items + work.trajectory_rows;
  options.table.limiter = {.min_size_to_sample = work.items};
  options.batch = kBatch;
  Topology topology;
  topology.roles = {
      {.name = "source",
       .outlets = {{"trajectories", "Trajectory"}, {"priorities", "Priorities"}},  // of which it sends none
       .make = factory([&] { return std::make_unique<Source>(work, measured); }),
       .execution = Execution::kThread},
      ReplayActor::spec("replay", 1, options),
      {.name = "sink",
       .inlets = {{"batches", "Batch"}},
       .make = factory([&] { return std::make_unique<Sink>(work, measured); }),
       .execution = Execution::kThread,
       .completes_run = true},
  };
  topology.channels = {{"source", "trajectories", "replay", "trajectories", kAhead},
                       {"source", "priorities", "replay", "priorities", 1},
                       {"replay", "batches", "sink", "batches", kAhead}};
  run_in_processes(topology, one_process_each(topology));
  TROUPE_CHECK(measured->sum > 0, "the batches were empty");
  return {static_cast<double>(work.items) / seconds(measured->first_batch - measured->first_insert),
          static_cast<double>(work.batches * kBatch) / seconds(measured->last_batch - measured->first_batch)};
}

Work states() {
  return {replay::transition_signature({{"observation", DType::kF32, {17}}}, {{"action", DType::kF32, {6}}}), 1'000'000,
          4'000, 16, true};
}
Work pixels(bool noise) {
  return {{{"pixels", DType::kU8, {84, 84, 9}},
           {"action", DType::kF32, {6}},
           {"reward", DType::kF32, {}},
           {"discount", DType::kF32, {}}},
          30'000,
          400,
          16,
          noise};
}

void report(benchmark::State& state, double value) {
  for (auto _ : state) {
  }
  state.counters["value"] = value;
  state.SetLabel("items/s");
}

/// Both rows of a kind, from one run.
void rows(const std::string& kind, const Work& work) {
  const auto rates = std::make_shared<Rates>();
  benchmark::RegisterBenchmark(("insert_" + kind).c_str(), [=](benchmark::State& state) {
    *rates = run(work);
    report(state, rates->inserts);
  })->Iterations(1);
  benchmark::RegisterBenchmark(("sample_" + kind).c_str(), [=](benchmark::State& state) {
    report(state, rates->samples);
  })->Iterations(1);
}

}  // namespace
}  // namespace troupe::actors

int main(int argc, char** argv) {
  using namespace troupe::actors;
  benchmark::Initialize(&argc, argv);
  rows("state", states());
  rows("pixels_noise", pixels(true));
  rows("pixels_smooth", pixels(false));
  benchmark::RunSpecifiedBenchmarks();
}
