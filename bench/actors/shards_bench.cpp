// What it costs to have replay in two shards instead of one, in one process on threads, where sharding gains nothing:
// what remains is the price. Rows with one shard are the base.
#include <benchmark/benchmark.h>

#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include <troupe/actors/control/runtime.hpp>
#include <troupe/actors/roles/replay_actor.hpp>
#include <troupe/core/check.hpp>
#include <troupe/messages/batch.hpp>
#include <troupe/messages/trajectory.hpp>
#include <troupe/replay/n_step_adder.hpp>
#include <troupe/replay/shards.hpp>

namespace troupe::actors {
namespace {

constexpr std::int64_t kBatches = 20'000;
constexpr std::int64_t kBatchRows = 256;
constexpr std::int64_t kTrajectoryRows = 16;
constexpr std::int64_t kItems = 100'000;
constexpr double kSamplesPerInsert = 32;

/// Written by one role, read when the runtime is gone.
struct Measured {
  Duration first{};
  Duration last{};
};

template <typename Make>
RoleFactory factory(Make make) {
  return [make](const RoleIdentity&) -> Result<std::unique_ptr<Role>> { return {make()}; };
}

void run(benchmark::State& state, std::int64_t items, const std::function<Topology(Measured&)>& make) {
  for (auto _ : state) {
    Measured measured;
    auto runtime = Runtime::make(make(measured), {}).value();
    const auto ended = runtime->run([] { return false; });
    runtime.reset();
    TROUPE_CHECK(ended.ok(), "{}", ended.error().message);
    state.SetIterationTime(seconds(measured.last - measured.first));
  }
  state.SetItemsProcessed(state.iterations() * items);
}

// Trajectories in, batches out, paced as D4PG's are.

const Signature& signature() {
  static const Signature result =
      replay::transition_signature({{"observation", DType::kF32, {17}}}, {{"action", DType::kF32, {6}}});  // cheetah
  return result;
}

/// Sends one trajectory again and again.
class Source final : public Role {
 public:
  Result<Progress> step(RoleContext& context) override {
    if (!frame_) {
      TROUPE_ASSIGN(auto builder,
                    messages::TrajectoryBuilder::make(
                        context.pool(), {std::make_shared<const Signature>(signature()), kTrajectoryRows, false}));
      for (const auto& column : builder.rows().columns) std::memset(column.data(), 0, column.size());
      frame_ = std::move(builder).finish({}, kTrajectoryRows);
    }
    if (!context.out("trajectories").ready()) return Progress::kIdle;
    context.out("trajectories").send(frame_);
    return Progress::kMore;
  }

 private:
  Frame frame_;
};

/// Takes batches from the shards in proportion, as the learner does.
class Sink final : public Role {
 public:
  Sink(std::size_t shards, Measured& measured) : mix_(shards), available_(shards), measured_(measured) {}

  Result<Progress> step(RoleContext& context) override {
    Inlet& batches = context.in("batches");
    for (std::size_t shard = 0; shard < available_.size(); ++shard) {
      const Frame* frame = batches.peek(shard);
      available_[shard] = frame != nullptr;
      if (frame == nullptr) continue;
      TROUPE_ASSIGN(const auto batch, messages::read_batch(*frame));
      mix_.observe(shard, batch.info().table_items, batch.info().table_mass);
    }
    const auto shard = mix_.pick(available_);
    if (!shard) return Progress::kIdle;
    if (taken_ == 0) measured_.first = context.clock().now();
    batches.take(*shard);
    if (++taken_ < kBatches) return Progress::kMore;
    measured_.last = context.clock().now();
    return Progress::kDone;
  }

 private:
  replay::ShardMix mix_;
  std::vector<bool> available_;
  Measured& measured_;
  std::int64_t taken_ = 0;
};

void replay(benchmark::State& state, std::int64_t shards) {
  run(state, kBatches * kBatchRows, [shards](Measured& measured) {
    ReplayActorOptions options;
    options.table.signature = signature();
    options.table.max_items = kItems;
    options.table.limiter = replay::sample_to_insert_ratio(kSamplesPerInsert, 1000, 32'000).value();
    options.batch = kBatchRows;
    Topology topology;
    topology.roles = {
        {.name = "source",
         .outlets = {{"trajectories", "Trajectory"}, {"priorities", "Priorities"}},  // of which it sends none
         .make = factory([] { return std::make_unique<Source>(); }),
         .execution = Execution::kThread},
        ReplayActor::spec("replay", shards, options),
        {.name = "sink",
         .inlets = {{"batches", "Batch"}},
         .make = factory([shards, &measured] { return std::make_unique<Sink>(shards, measured); }),
         .execution = Execution::kThread,
         .completes_run = true},
    };
    topology.channels = {{"source", "trajectories", "replay", "trajectories", 4},
                         {"source", "priorities", "replay", "priorities", 1},
                         {"replay", "batches", "sink", "batches", 4 / shards}};
    return topology;
  });
  state.SetLabel("samples/s");
}

void replay_1_shard(benchmark::State& state) { replay(state, 1); }
BENCHMARK(replay_1_shard)->UseManualTime()->Iterations(3);
void replay_2_shards(benchmark::State& state) { replay(state, 2); }
BENCHMARK(replay_2_shards)->UseManualTime()->Iterations(3);

}  // namespace
}  // namespace troupe::actors

BENCHMARK_MAIN();
