// Frames from a role in one process to a role in another on the same host: a new value in the first and the last word
// of a frame whose other bytes are there already, the whole way through both nodes, a word of each cache line read and
// summed by the consumer. Up to four frames are under way. So a frame is read once, where it was made, and not copied.
// Frames of 64 KiB and more stay where they are, what belongs to them goes by TLS.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include <troupe/bench/actors/processes.hpp>
#include <troupe/messages/parameters.hpp>

namespace troupe::actors {
namespace {

constexpr std::int64_t kBytes = std::int64_t{4} << 30;  // in all, at each size
constexpr std::int64_t kMostFrames = 40'000;
constexpr std::int64_t kWarmUp = 16;  // frames before the time is taken: pages are made, caches fill
constexpr std::int64_t kUnderWay = 4;
constexpr std::size_t kWordsOfLine = 8;

/// Written by the consumer.
struct Measured {
  Duration first;
  Duration last;
  std::int64_t wrong;
};

class Producer final : public Role {
 public:
  Producer(std::size_t frame_bytes, std::int64_t frames) : frame_bytes_(frame_bytes), frames_(frames) {}

  Result<Progress> step(RoleContext& context) override {
    if (sent_ == frames_) return Progress::kDone;
    if (!context.out("frames").ready()) return Progress::kIdle;
    TROUPE_ASSIGN(auto builder, messages::ParametersBuilder::make(context.pool(), DType::kF32,
                                                                  static_cast<std::int64_t>(frame_bytes_ / 4)));
    const auto value = static_cast<std::uint64_t>(sent_);
    std::memcpy(builder.data().data(), &value, sizeof(value));
    std::memcpy(builder.data().data() + frame_bytes_ - kWordsOfLine * sizeof(value), &value, sizeof(value));
    context.out("frames").send(std::move(builder).finish({.version = sent_++}));
    return Progress::kMore;
  }

 private:
  std::size_t frame_bytes_;
  std::int64_t frames_;
  std::int64_t sent_ = 0;
};

class Consumer final : public Role {
 public:
  Consumer(std::int64_t frames, const InAllProcesses<Measured>& measured) : frames_(frames), measured_(measured) {}

  Result<Progress> step(RoleContext& context) override {
    if (context.in("frames").empty()) return Progress::kIdle;
    TROUPE_ASSIGN(const auto parameters, messages::read_parameters(context.in("frames").take()));
    const auto data = parameters.data();
    const std::span words(reinterpret_cast<const std::uint64_t*>(data.data()), data.size() / sizeof(std::uint64_t));
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < words.size(); i += kWordsOfLine) sum += words[i];
    // Between the ends lies what the frame's memory held before: nothing that is known.
    measured_->wrong +=
        words.front() != static_cast<std::uint64_t>(taken_) || words[words.size() - kWordsOfLine] != words.front();
    benchmark::DoNotOptimize(sum);
    ++taken_;
    if (taken_ == kWarmUp) measured_->first = context.clock().now();
    if (taken_ < frames_) return Progress::kMore;
    measured_->last = context.clock().now();
    return Progress::kDone;
  }

 private:
  std::int64_t frames_;
  const InAllProcesses<Measured>& measured_;
  std::int64_t taken_ = 0;
};

void frames(benchmark::State& state, std::size_t frame_bytes) {
  const std::int64_t count = std::min(kBytes / static_cast<std::int64_t>(frame_bytes), kMostFrames);
  for (auto _ : state) {
    const InAllProcesses<Measured> measured;
    Topology topology;
    topology.roles = {
        {.name = "producer",
         .outlets = {{"frames", "Parameters"}},
         .make = factory([=] { return std::make_unique<Producer>(frame_bytes, kWarmUp + count); }),
         .execution = Execution::kThread},
        {.name = "consumer",
         .inlets = {{"frames", "Parameters"}},
         .make = factory([&] { return std::make_unique<Consumer>(kWarmUp + count, measured); }),
         .execution = Execution::kThread,
         .completes_run = true},
    };
    topology.channels = {{"producer", "frames", "consumer", "frames", kUnderWay}};
    run_in_processes(topology, one_process_each(topology));
    TROUPE_CHECK(measured->wrong == 0, "{} wrong frames", measured->wrong);
    state.SetIterationTime(seconds(measured->last - measured->first));
  }
  state.SetItemsProcessed(state.iterations() * count);
  state.SetLabel("frames/s");
}

void frame_64_kib(benchmark::State& state) { frames(state, 64 << 10); }
void frame_1_mib(benchmark::State& state) { frames(state, 1 << 20); }
void frame_16_mib(benchmark::State& state) { frames(state, 16 << 20); }
void frame_64_mib(benchmark::State& state) { frames(state, 64 << 20); }
BENCHMARK(frame_64_kib)->UseManualTime()->Iterations(1);
BENCHMARK(frame_1_mib)->UseManualTime()->Iterations(1);
BENCHMARK(frame_16_mib)->UseManualTime()->Iterations(1);
BENCHMARK(frame_64_mib)->UseManualTime()->Iterations(1);

}  // namespace
}  // namespace troupe::actors

BENCHMARK_MAIN();
