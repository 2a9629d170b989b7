// What a consumer that is 100 times slower than its producer costs in memory: for TROUPE_BENCH_SECONDS a producer makes
// a frame whenever the channel lets it, every millisecond at most, and the consumer takes one every 100 ms, each in a
// process of its own. In one run for both ways that frames take: large ones by shared memory, small ones by the link.
//
// A row is the most memory that the processes of a pair had resident beyond what they had before the first frame. Its
// bound follows from the channel's capacity: as many frames may wait at the producer (it keeps each until it was
// taken), and as many at the consumer; those in shared memory are resident in both.
#include <benchmark/benchmark.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include <troupe/bench/actors/processes.hpp>
#include <troupe/messages/parameters.hpp>

namespace troupe::actors {
namespace {

constexpr Duration kProducerPeriod = std::chrono::milliseconds(1);
constexpr Duration kConsumerPeriod = 100 * kProducerPeriod;
constexpr std::int64_t kMib = 1 << 20;
constexpr std::int64_t kEnvelopeBytes = 1024;  // of a frame, for the message around its data
constexpr std::size_t kLine = 64;
/// Queues of small things, allocators, what the first frame brings in of the program itself: 16 MiB for each process.
constexpr std::int64_t kOverheadBytes = 2 * 16 * kMib;

Duration run_time() {
  const char* const text = std::getenv("TROUPE_BENCH_SECONDS");
  return std::chrono::seconds(text != nullptr ? std::atoi(text) : 20);
}

struct Pair {
  const char* name;
  std::int64_t frame_bytes;
  std::int64_t capacity;
  std::int64_t copies;  ///< of a frame that waits, over both processes

  std::int64_t bound() const { return capacity * frame_bytes * copies + kOverheadBytes; }
};
// Kept and in shared memory, which the consumer maps; kept, and received.
constexpr std::array<Pair, 2> kPairs = {{{"shared_memory", kMib, 128, 3}, {"link", 32 << 10, 4096, 2}}};

struct Measured {
  std::array<std::array<std::int64_t, 2>, 2> grown;  ///< bytes, by pair, of producer and consumer
  std::array<std::int64_t, 2> sent, taken;
};

/// How much this process has grown at most since the first call.
class Growth {
 public:
  std::int64_t most() {
    if (before_ == 0) before_ = resident_bytes("VmRSS");
    return resident_bytes("VmHWM") - before_;
  }

 private:
  std::int64_t before_ = 0;
};

class Producer final : public Role {
 public:
  Producer(std::size_t pair, const InAllProcesses<Measured>& measured) : pair_(pair), measured_(measured) {}

  Result<Progress> step(RoleContext& context) override {
    measured_->grown[pair_][0] = growth_.most();
    if (!context.out("frames").ready()) return Progress::kIdle;
    const std::int64_t bytes = kPairs[pair_].frame_bytes - kEnvelopeBytes;
    TROUPE_ASSIGN(auto builder, messages::ParametersBuilder::make(context.pool(), DType::kF32, bytes / 4));
    std::memset(builder.data().data(), 1, builder.data().size());
    context.out("frames").send(std::move(builder).finish({.version = measured_->sent[pair_]++}));
    context.wake_after(kProducerPeriod);
    return Progress::kIdle;
  }

 private:
  std::size_t pair_;
  const InAllProcesses<Measured>& measured_;
  Growth growth_;
};

class Consumer final : public Role {
 public:
  Consumer(std::size_t pair, const InAllProcesses<Measured>& measured) : pair_(pair), measured_(measured) {}

  Result<Progress> step(RoleContext& context) override {
    const Duration now = context.clock().now();
    measured_->grown[pair_][1] = growth_.most();
    if (end_ == Duration::zero()) end_ = now + run_time();
    if (now >= end_) return Progress::kDone;
    if (now >= next_ && !context.in("frames").empty()) {
      TROUPE_ASSIGN(const auto parameters, messages::read_parameters(context.in("frames").take()));
      std::int64_t sum = 0;
      for (std::size_t i = 0; i < parameters.data().size(); i += kLine) {
        sum += std::to_integer<std::int64_t>(parameters.data()[i]);
      }
      benchmark::DoNotOptimize(sum);
      ++measured_->taken[pair_];
      next_ = now + kConsumerPeriod;
    }
    context.wake_after(kConsumerPeriod);
    return Progress::kIdle;
  }

 private:
  std::size_t pair_;
  const InAllProcesses<Measured>& measured_;
  Growth growth_;
  Duration end_{};
  Duration next_{};
};

Measured run() {
  const InAllProcesses<Measured> measured;
  Topology topology;
  for (std::size_t pair = 0; pair < kPairs.size(); ++pair) {
    const std::string name = kPairs[pair].name;
    topology.roles.push_back({.name = "producer-" + name,
                              .outlets = {{"frames", "Parameters"}},
                              .make = factory([&measured, pair] { return std::make_unique<Producer>(pair, measured); }),
                              .execution = Execution::kThread});
    topology.roles.push_back({.name = "consumer-" + name,
                              .inlets = {{"frames", "Parameters"}},
                              .make = factory([&measured, pair] { return std::make_unique<Consumer>(pair, measured); }),
                              .execution = Execution::kThread,
                              .completes_run = true});
    topology.channels.push_back({"producer-" + name, "frames", "consumer-" + name, "frames", kPairs[pair].capacity});
  }
  run_in_processes(topology, one_process_each(topology));
  return *measured.operator->();
}

void row(benchmark::State& state, const Pair& pair, std::size_t index, const Measured& measured) {
  for (auto _ : state) {
  }
  const auto& grown = measured.grown[index];
  state.counters["value"] = static_cast<double>(grown[0] + grown[1]) / kMib;
  state.counters["vs_bound"] = static_cast<double>(pair.bound()) / kMib;
  state.counters["producer"] = static_cast<double>(grown[0]) / kMib;
  state.counters["consumer"] = static_cast<double>(grown[1]) / kMib;
  state.counters["sent"] = static_cast<double>(measured.sent[index]);
  state.counters["taken"] = static_cast<double>(measured.taken[index]);
  state.counters["seconds"] = seconds(run_time());
  state.SetLabel("MiB");
  if (measured.sent[index] < pair.capacity) state.SkipWithError("the channel was never full");
}

}  // namespace
}  // namespace troupe::actors

int main(int argc, char** argv) {
  using namespace troupe::actors;
  benchmark::Initialize(&argc, argv);
  const Measured measured = run();
  for (std::size_t index = 0; index < kPairs.size(); ++index) {
    benchmark::RegisterBenchmark((std::string("memory_") + kPairs[index].name).c_str(), [&, index](auto& state) {
      row(state, kPairs[index], index, measured);
    })->Iterations(1);
  }
  benchmark::RunSpecifiedBenchmarks();
  for (std::size_t index = 0; index < kPairs.size(); ++index) {
    const std::int64_t grown = measured.grown[index][0] + measured.grown[index][1];
    TROUPE_CHECK(grown <= kPairs[index].bound(), "{}: {} bytes, at most {} allowed", kPairs[index].name, grown,
                 kPairs[index].bound());
  }
}
