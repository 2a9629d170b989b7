// What a replicator costs: the D4PG step of learner_bench.cpp, global batch 256, float32, one thread a replica. The row
// multi_worker_1 has vs_one_device, measured in the same row, turn by turn; it may not fall below 0.97. The value is
// steps per second. The wide rows show what buckets bring (CompileOptions::bucket_bytes): gradients of 50 MB, two
// replicas.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include <troupe/algorithms/d4pg/replica.hpp>
#include <troupe/bench/learner/random_rows.hpp>
#include <troupe/collectives/in_process.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/linear.hpp>
#include <troupe/learner/ops/reduce.hpp>
#include <troupe/learner/replicate/make_replicator.hpp>
#include <troupe/learner/replicate/multi_worker.hpp>

namespace troupe::learner {
namespace {

constexpr std::int64_t kBatch = 256;

d4pg::Options options() {
  d4pg::Options made;
  made.environment = {
      .observation_size = 17, .action_low = {-1, -1, -1, -1, -1, -1}, .action_high = {1, 1, 1, 1, 1, 1}};
  return made;
}

/// The same random rows again and again.
class Rows final : public InputPipeline {
 public:
  explicit Rows(const InputContext& context) : batch_(d4pg::batch_signature(options()), context.replica_batch) {
    fill_with_noise(batch_);
  }
  const Signature& signature() const override { return *batch_.view().signature; }
  Result<BatchView> next() override { return batch_.view(); }

 private:
  BatchBuffer batch_;
};

struct Trained {
  std::unique_ptr<Replica> replica = d4pg::training(options(), [](const InputContext& context) {
    return Result<std::unique_ptr<InputPipeline>>(std::make_unique<Rows>(context));
  });
  std::unique_ptr<Replicator> replicator;

  explicit Trained(const ReplicatorOptions& with) {
    replicator = make_replicator(*replica, with).value();
    if (auto* const worker = dynamic_cast<MultiWorker*>(replicator.get())) {
      worker->reform({.epoch = 1, .rank = 0, .size = 1}, std::chrono::seconds(5)).value();
    }
    for (int i = 0; i < 20; ++i) replicator->step().value();
  }
};

ReplicatorOptions of(ReplicatorKind kind, int replicas, bool deterministic) {
  return {.kind = kind,
          .global_batch = kBatch,
          .replicas = replicas,
          .deterministic = deterministic,
          .compile = {.threads = 1}};
}

void step(benchmark::State& state, ReplicatorKind kind, int replicas, bool deterministic) {
  Trained trained(of(kind, replicas, deterministic));
  for ([[maybe_unused]] auto _ : state) trained.replicator->step().value();
  state.SetItemsProcessed(state.iterations());
  state.SetLabel("steps/s");
}

/// Gradients of 50 MB with little to compute: how much of their exchange the backward pass hides.
class Wide final : public Replica {
 public:
  Result<std::unique_ptr<InputPipeline>> input_fn(const InputContext& context) override {
    return std::unique_ptr<InputPipeline>(std::make_unique<Rows>(context));
  }
  void step_fn(ReplicaContext& context, const StepInputs& inputs) override {
    Graph& graph = context.graph();
    const ParamGroup group = graph.group("wide");
    Var x = inputs["observation"];
    std::int64_t width = 17;
    for (const char* layer : {"0", "1", "2", "3"}) {
      x = relu(matmul(x, graph.param(group, layer, Shape{width, 2048}, Init::uniform(0.02))));
      width = 2048;
    }
    graph.minimize(mean(square(x)), group, context.wrap_optimizer({.rule = Sgd{.learning_rate = 1e-3}}));
  }
};

void wide_step(benchmark::State& state, std::int64_t bucket_bytes) {
  Wide wide;
  ReplicatorOptions with = of(ReplicatorKind::kMultiDevice, 2, false);
  with.global_batch = 64;
  with.compile.bucket_bytes = bucket_bytes;
  const auto replicator = make_replicator(wide, with).value();
  for (int i = 0; i < 3; ++i) replicator->step().value();
  for ([[maybe_unused]] auto _ : state) replicator->step().value();
  state.SetItemsProcessed(state.iterations());
  state.SetLabel("steps/s");
}

void multi_worker_alone(benchmark::State& state) {
  collectives::InProcessHub hub;
  const auto communicator = hub.make();
  ReplicatorOptions with = of(ReplicatorKind::kMultiWorker, 1, false);
  with.communicator = communicator.get();
  Trained one(of(ReplicatorKind::kOneDevice, 1, false)), group(with);
  using Clock = std::chrono::steady_clock;
  std::vector<double> ratios;
  double seconds = 0;
  const auto time = [](Replicator& replicator) {
    const auto begin = Clock::now();
    replicator.step().value();
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  for ([[maybe_unused]] auto _ : state) {
    const double alone = time(*one.replicator), grouped = time(*group.replicator);
    ratios.push_back(alone / grouped);
    seconds += grouped;
  }
  std::ranges::nth_element(ratios, ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2));
  state.counters["value"] = static_cast<double>(state.iterations()) / seconds;
  state.counters["vs_one_device"] = state.counters["value"] / ratios[ratios.size() / 2];
  state.SetLabel("steps/s");
}

void register_rows() {
  const auto add = [](const char* name, ReplicatorKind kind, int replicas, bool deterministic = false) {
    benchmark::RegisterBenchmark(name, step, kind, replicas, deterministic)->UseRealTime()->MinTime(2);
  };
  add("one_device", ReplicatorKind::kOneDevice, 1);
  add("one_device_deterministic", ReplicatorKind::kOneDevice, 1, true);
  benchmark::RegisterBenchmark("multi_worker_1", multi_worker_alone)->UseRealTime()->MinTime(4);
  add("multi_device_2", ReplicatorKind::kMultiDevice, 2);
  add("central_storage_2", ReplicatorKind::kCentralStorage, 2);
  const auto add_wide = [](const char* name, std::int64_t bucket_bytes) {
    benchmark::RegisterBenchmark(name, wide_step, bucket_bytes)->UseRealTime()->MinTime(2);
  };
  add_wide("wide_multi_device_2_one_call", 0);
  add_wide("wide_multi_device_2_buckets_1mb", std::int64_t{1} << 20);
  add_wide("wide_multi_device_2_buckets_4mb", std::int64_t{4} << 20);
  add_wide("wide_multi_device_2_buckets_16mb", std::int64_t{16} << 20);
}

}  // namespace
}  // namespace troupe::learner

int main(int argc, char** argv) {
  troupe::learner::register_rows();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
