// Push and pull of 25 million float32 parameters: 1, 2 and 4 workers that compute nothing, against one shard that
// applies each gradient (SGD), in one process and with a process for each. A row is the bytes that were pushed and
// pulled a second, over all workers.
//
// The limit beside it is memory: what the same bytes take when bare loops move them, on as many threads as there are
// workers, but at most one a core. A gradient is copied into its message, applied (out of place, since the version
// before is still held by readers), and the parameters are copied out of theirs. Between processes too: messages are
// read where they were made. It is taken before and after each row, since memory's speed drifts on shared machines.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <barrier>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include <troupe/actors/roles/input_feed.hpp>
#include <troupe/actors/roles/parameter_server.hpp>
#include <troupe/bench/actors/processes.hpp>
#include <troupe/core/log.hpp>
#include <troupe/learner/ops/linear.hpp>
#include <troupe/learner/ops/reduce.hpp>

namespace troupe::actors {
namespace {

constexpr std::int64_t kSide = 5'000;  // of a matrix: 25 million parameters
constexpr std::int64_t kBytes = kSide * kSide * 4;
constexpr std::int64_t kWarmUp = 3;  // cycles of each worker before the time is taken: pages are made
constexpr std::int64_t kCycles = 12;

class Nothing final : public learner::InputPipeline {
 public:
  Nothing() : batch_({{"x", DType::kF32, {kSide}}}, 1) {}
  const Signature& signature() const override { return *batch_.view().signature; }
  Result<BatchView> next() override { return batch_.view(); }

 private:
  BatchBuffer batch_;
};

class Matrix final : public learner::Replica {
 public:
  Result<std::unique_ptr<learner::InputPipeline>> input_fn(const learner::InputContext&) override {
    return std::unique_ptr<learner::InputPipeline>(std::make_unique<Nothing>());
  }
  void step_fn(learner::ReplicaContext& context, const learner::StepInputs& inputs) override {
    learner::Graph& graph = context.graph();
    const learner::ParamGroup group = graph.group("matrix");
    const learner::Var weight = graph.param(group, "weight", {kSide, kSide}, learner::Init::constant(0));
    graph.minimize(mean(matmul(inputs["x"], weight)), group,
                   context.wrap_optimizer({.rule = learner::Sgd{.learning_rate = 0.1}}));
  }
};

struct Measured {
  std::atomic<std::int64_t> warm;    ///< workers
  std::atomic<std::int64_t> cycles;  ///< since all were
  std::atomic<Duration::rep> first, last;
};

/// A worker that pushes the gradient of its first batch again and again.
class Loop final : public Role {
 public:
  Loop(const ParameterServerOptions& options, std::int64_t index, Measured& measured)
      : measured_(measured), workers_(options.workers) {
    worker_ = learner::ParameterServerWorker::make(matrix_, plan(options, index, 0), options.transfer).value();
    index_ = static_cast<std::uint32_t>(index);
  }

  Result<Progress> step(RoleContext& context) override {
    if (failure_) return *failure_;
    if (waiting_) return Progress::kIdle;
    if (frame_ && pulled_) {
      TROUPE_ASSIGN(const auto parameters, messages::read_parameters(std::exchange(frame_, Frame())));
      TROUPE_TRY(worker_->load(parameters));
      if (cycle_ == 0) TROUPE_TRY(worker_->step());
      if (count_cycle()) return Progress::kDone;
      TROUPE_ASSIGN(auto frames, worker_->gradients(context.pool()));
      call(context, "push", std::move(frames.at(0)));
      return Progress::kIdle;
    }
    if (!context.caller("pull").ready(0)) return Progress::kIdle;
    TROUPE_ASSIGN(Frame pull, messages::make_parameters_pull(context.pool(), {index_, 0, worker_->model_hash()}));
    call(context, "pull", std::move(pull));
    return Progress::kIdle;
  }

 private:
  /// Whether it was the last one.
  bool count_cycle() {
    const SteadyClock clock;  // the same in all processes
    if (++cycle_ == kWarmUp && ++measured_.warm == workers_) measured_.first = clock.now().count();
    if (cycle_ <= kWarmUp || measured_.warm < workers_) return false;
    const std::int64_t cycles = ++measured_.cycles;
    if (cycles == workers_ * kCycles) measured_.last = clock.now().count();
    return cycles >= workers_ * kCycles;
  }
  void call(RoleContext& context, const char* port, Frame frame) {
    waiting_ = true;
    pulled_ = std::string_view(port) == "pull";
    context.caller(port).call_to(0, std::move(frame), std::chrono::seconds(60), [this](Result<Frame> answer) {
      waiting_ = false;
      if (!answer.ok()) {
        failure_ = answer.error();
      } else if (pulled_) {
        frame_ = std::move(answer).value();
      }
    });
  }

  Matrix matrix_;
  Measured& measured_;
  std::int64_t workers_;
  std::uint32_t index_ = 0;
  std::unique_ptr<learner::ParameterServerWorker> worker_;
  bool waiting_ = false, pulled_ = false;
  Frame frame_;
  std::optional<Error> failure_;
  std::int64_t cycle_ = 0;
};

/// Bytes a second that `threads` bare loops push and pull.
double bare_loops(std::size_t threads) {
  constexpr int kRounds = 6;
  const auto elements = static_cast<std::size_t>(kBytes) / sizeof(float);
  std::barrier meet(static_cast<std::ptrdiff_t>(threads));
  std::vector<Duration> took(threads);
  std::vector<std::jthread> running;
  for (std::size_t t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      std::vector<float> gradient(elements), message(elements), values(elements), next(elements), loaded(elements);
      const SteadyClock clock;
      Duration began{};
      for (int round = 0; round <= kRounds; ++round) {
        if (round == 1) {
          meet.arrive_and_wait();
          began = clock.now();
        }
        std::memcpy(message.data(), gradient.data(), kBytes);
        for (std::size_t i = 0; i < elements; ++i) next[i] = values[i] - 0.1f * message[i];
        std::memcpy(loaded.data(), next.data(), kBytes);
        benchmark::DoNotOptimize(loaded.data());
        std::swap(values, next);
      }
      took[t] = clock.now() - began;
    });
  }
  running.clear();
  return static_cast<double>(threads) * kRounds * 2 * static_cast<double>(kBytes) / seconds(std::ranges::max(took));
}

void push_pull(benchmark::State& state, std::int64_t workers, bool processes) {
  log::set_level(log::Level::kWarn);
  const auto threads = static_cast<std::size_t>(
      std::min<std::int64_t>(workers, std::max<std::int64_t>(std::thread::hardware_concurrency(), 1)));
  double limit = 0;
  for (auto _ : state) {
    limit += bare_loops(threads) / 2;
    const InAllProcesses<Measured> measured;
    ParameterServerOptions options;
    options.feed =
        input_feed([]() -> Result<std::unique_ptr<learner::Replica>> { return {std::make_unique<Matrix>()}; });
    options.workers = workers;
    options.batch = workers;
    options.updates = 1'000'000;
    Topology topology;
    const Status added = add_parameter_server(topology, options);
    TROUPE_CHECK(added.ok(), "{}", added.error().message);
    RoleSpec& role = topology.roles.back();
    role.make = [options, &measured](const RoleIdentity& identity) -> Result<std::unique_ptr<Role>> {
      return {std::make_unique<Loop>(options, identity.index, *measured.operator->())};
    };
    role.completes_run = true;
    if (processes) {
      run_in_processes(topology, one_process_each(topology));
    } else {
      const auto runtime = Runtime::make(topology, {}).value();
      const auto ended = runtime->run([] { return false; });
      TROUPE_CHECK(ended.ok(), "{}", ended.error().message);
      runtime->stop();
    }
    state.SetIterationTime(seconds(Duration(measured->last - measured->first)));
    limit += bare_loops(threads) / 2;
  }
  const double bytes = static_cast<double>(state.iterations() * workers * kCycles * 2 * kBytes);
  state.counters["value"] = benchmark::Counter(bytes * 1e-9, benchmark::Counter::kIsRate);
  state.counters["vs_memory"] = limit * 1e-9 / static_cast<double>(state.iterations());
  state.SetLabel("GB/s");
}

void workers_1(benchmark::State& state) { push_pull(state, 1, false); }
void workers_2(benchmark::State& state) { push_pull(state, 2, false); }
void workers_4(benchmark::State& state) { push_pull(state, 4, false); }
void processes_1(benchmark::State& state) { push_pull(state, 1, true); }
void processes_2(benchmark::State& state) { push_pull(state, 2, true); }
void processes_4(benchmark::State& state) { push_pull(state, 4, true); }
BENCHMARK(workers_1)->UseManualTime()->Iterations(1);
BENCHMARK(workers_2)->UseManualTime()->Iterations(1);
BENCHMARK(workers_4)->UseManualTime()->Iterations(1);
BENCHMARK(processes_1)->UseManualTime()->Iterations(1);
BENCHMARK(processes_2)->UseManualTime()->Iterations(1);
BENCHMARK(processes_4)->UseManualTime()->Iterations(1);

}  // namespace
}  // namespace troupe::actors

BENCHMARK_MAIN();
