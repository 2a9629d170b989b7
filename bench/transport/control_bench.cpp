// How long a small message takes there and back on the urgent lane between two nodes, both in this process, over TCP on
// loopback: while nothing else happens, and while 64 MiB frames flow on the bulk lane as fast as they can. One message
// a millisecond.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <semaphore>
#include <thread>
#include <vector>

#include <troupe/bench/transport/bulk.hpp>
#include <troupe/core/clock.hpp>

namespace troupe::transport {
namespace {

constexpr std::int64_t kRounds = 1000;
constexpr std::int64_t kWarmUp = 200;
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
