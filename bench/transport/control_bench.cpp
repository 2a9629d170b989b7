// How long a small message takes there and back on the urgent lane between two nodes, both in this process, over TCP on
// loopback: while nothing else happens, and while 64 MiB frames flow on the bulk lane as fast as they can. One message
// a millisecond.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <semaphore>
#include <thread>
#include <vector>

#include <troupe/bench/transport/streams.hpp>
#include <troupe/core/clock.hpp>

namespace troupe::transport {
namespace {

constexpr std::int64_t kRounds = 1000;
constexpr std::int64_t kWarmUp = 200;
constexpr std::size_t kFrameBytes = 64 << 20;
constexpr std::int64_t kFramesUnderWay = 4;

/// Sends frames until it is destroyed.
class Bulk {
 public:
  explicit Bulk(const LoopbackNodes& nodes)
      : stream_(nodes, Lane::kBulk, [this](const StreamMessage&) { credits_.release(); }),
        sending_([this](std::stop_token stop) {
          const auto body = std::make_shared<std::vector<std::byte>>(kFrameBytes, std::byte{1});
          while (!stop.stop_requested()) {
            credits_.acquire();
            stream_.sender().send({.body = *body, .owner = body}).value();
            ++frames_;
          }
        }) {}
  std::int64_t frames() const { return frames_; }

 private:
  std::counting_semaphore<> credits_{kFramesUnderWay};
  std::atomic<std::int64_t> frames_ = 0;
  BenchStream stream_;
  std::jthread sending_;
};

/// The 99th percentile of the round trips, in microseconds.
double p99_us(const LoopbackNodes& nodes) {
  const SteadyClock clock;
  std::binary_semaphore back(0);
  Duration arrived{};
  BenchStream answers(nodes, Lane::kUrgent, [&](const StreamMessage&) {
    arrived = clock.now();
    back.release();
  });
  BenchStream questions(nodes, Lane::kUrgent,
                        [&](const StreamMessage& question) { answers.sender().send(question).value(); });
  std::vector<Duration> trips;
  for (std::int64_t i = 0; i < kWarmUp + kRounds; ++i) {
    const Duration asked = clock.now();
    questions.sender().send({}).value();
    back.acquire();
    if (i >= kWarmUp) trips.push_back(arrived - asked);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::ranges::sort(trips);
  return seconds(trips[trips.size() * 99 / 100]) * 1e6;
}

void report(benchmark::State& state, double value) {
  state.counters["value"] = value;
  state.SetLabel("us");
}

double idle_p99_us = 0;

void control_idle_p99(benchmark::State& state) {
  for (auto _ : state) idle_p99_us = p99_us(LoopbackNodes());
  report(state, idle_p99_us);
}

void control_busy_p99(benchmark::State& state) {
  for (auto _ : state) {
    const LoopbackNodes nodes;
    Bulk bulk(nodes);
    report(state, p99_us(nodes));
    if (idle_p99_us > 0) state.counters["vs_idle"] = idle_p99_us;
    state.counters["frames"] = static_cast<double>(bulk.frames());
  }
}

BENCHMARK(control_idle_p99)->Iterations(1);
BENCHMARK(control_busy_p99)->Iterations(1);

}  // namespace
}  // namespace troupe::transport

BENCHMARK_MAIN();
