// Frames over a stream from one node to another, both in this process, over TCP on loopback: from the first send() to
// the last frame delivered, each in a buffer of its own. All frames are queued at once, by reference to the same bytes,
// so they cost encryption, copies, system calls and acknowledgements, not their making. A small message is a head of 64
// bytes without a body. The counter cpu_s_per_gb is CPU time of both ends, which a busy machine distorts least.
#include <benchmark/benchmark.h>

#include <atomic>
#include <semaphore>
#include <vector>

#include <troupe/bench/transport/streams.hpp>
#include <troupe/core/clock.hpp>

namespace troupe::transport {
namespace {

constexpr std::int64_t kBytes = std::int64_t{1} << 30;  // in all, at each size
constexpr std::int64_t kSmallMessages = 400'000;
constexpr std::int64_t kWarmUpShare = 4;  // before the time is taken: a quarter as many

/// Carries `count` messages with bodies of `bytes`; returns how long it took.
Duration carry(benchmark::State& state, std::int64_t bytes, std::int64_t count) {
  const LoopbackNodes nodes;
  std::atomic<std::int64_t> awaited = 0;
  std::binary_semaphore all_here(0);
  BenchStream stream(nodes, Lane::kBulk, [&](const StreamMessage&) {
    if (--awaited == 0) all_here.release();
  });
  const auto body = std::make_shared<std::vector<std::byte>>(bytes, std::byte{1});
  const StreamMessage message{.body = *body, .owner = body};
  const auto run = [&](std::int64_t messages) {
    const SteadyClock clock;
    const Duration begin = clock.now();
    awaited = messages;
    for (std::int64_t i = 0; i < messages; ++i) stream.sender().send(message).value();
    all_here.acquire();
    return clock.now() - begin;
  };
  run(count / kWarmUpShare);
  Duration took{};
  for (auto _ : state) {
    took = run(count);
    state.SetIterationTime(seconds(took));
  }
  return took;
}

void frames(benchmark::State& state, std::int64_t bytes) {
  const Duration cpu = process_cpu();
  state.counters["value"] = static_cast<double>(kBytes) / 1e6 / seconds(carry(state, bytes, kBytes / bytes));
  const double gigabytes = static_cast<double>(kBytes + kBytes / kWarmUpShare) / 1e9;
  state.counters["cpu_s_per_gb"] = seconds(process_cpu() - cpu) / gigabytes;
  state.SetLabel("MB/s");
}

void small_message(benchmark::State& state) {
  state.counters["value"] = static_cast<double>(kSmallMessages) / seconds(carry(state, 0, kSmallMessages));
  state.SetLabel("messages/s");
}
void frame_64_kib(benchmark::State& state) { frames(state, 64 << 10); }
void frame_1_mib(benchmark::State& state) { frames(state, 1 << 20); }
void frame_16_mib(benchmark::State& state) { frames(state, 16 << 20); }
void frame_64_mib(benchmark::State& state) { frames(state, 64 << 20); }
BENCHMARK(small_message)->UseManualTime()->Iterations(1);
BENCHMARK(frame_64_kib)->UseManualTime()->Iterations(1);
BENCHMARK(frame_1_mib)->UseManualTime()->Iterations(1);
BENCHMARK(frame_16_mib)->UseManualTime()->Iterations(1);
BENCHMARK(frame_64_mib)->UseManualTime()->Iterations(1);

}  // namespace
}  // namespace troupe::transport

BENCHMARK_MAIN();
