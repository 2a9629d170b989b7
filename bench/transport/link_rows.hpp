#pragma once
// The rows of the bench of links, the same for Troupe and its rivals: messages from the near host to the far one, from
// the first that is sent to the last that has come. Each program says how its side sends and receives.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <troupe/bench/transport/hosts.hpp>
#include <troupe/core/clock.hpp>

namespace troupe::transport {

struct LinkSide {
  /// Sends so many messages; need not wait until they have come.
  using Send = std::function<void(std::int64_t messages)>;

  std::string version;         ///< of the rival; empty: Troupe
  bool small_messages = true;  ///< whether it has that row
  std::int64_t small_bytes = 64;
  /// On the far host: takes `all` messages and calls `arrived` after each, on one thread at a time.
  std::function<void(const FarHost& host, std::int64_t bytes, std::int64_t all, std::function<void()> arrived)> receive;
  /// On the near host: connects.
  std::function<Send(const FarHost& host, std::int64_t bytes)> connect;
};

constexpr std::int64_t kLinkBytes = std::int64_t{1} << 30;  // in all, at each size
constexpr int kFrameBytes = 64 << 10;                       // the smallest frame
constexpr std::int64_t kSmallMessages = 400'000;
constexpr std::int64_t kWarmUpShare = 4;  // before the time is taken: a quarter as many

/// The far host is made before any row runs: a process with a library's threads cannot be forked.
inline void link_row(const char* name, const LinkSide& side, std::int64_t bytes, std::int64_t count) {
  const std::int64_t warm_up = count / kWarmUpShare;
  const auto far = std::make_shared<FarHost>([&](const FarHost& host) {
    std::int64_t arrived = 0;
    side.receive(host, bytes, warm_up + count, [&] {
      ++arrived;
      if (arrived == warm_up || arrived == warm_up + count) host.say();
    });
  });
  const auto run = [=, &side](benchmark::State& state) {
    const auto cpu = [] {
      timespec now{};
      clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
      return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
    };
    const SteadyClock clock;
    for (auto _ : state) {
      const Duration cpu_before = cpu();
      LinkSide::Send send = side.connect(*far, bytes);
      send(warm_up);
      far->await();
      const Duration begin = clock.now();
      send(count);
      far->await();
      const double took = seconds(clock.now() - begin);
      send = nullptr;  // disconnects before the far host goes
      const double cpu_s = seconds(cpu() - cpu_before + far->end());
      state.SetIterationTime(took);
      const auto messages = static_cast<double>(count);
      const double megabytes = messages * static_cast<double>(bytes) / 1e6;
      state.counters["value"] = (bytes < kFrameBytes ? messages : megabytes) / took;
      // Of both ends and the warm-up: what a busy machine distorts least.
      if (bytes >= kFrameBytes) state.counters["cpu_s_per_gb"] = cpu_s / (megabytes / 1e3 * (1 + 1.0 / kWarmUpShare));
    }
    state.SetLabel(bytes < kFrameBytes ? "messages/s" : "MB/s");
  };
  benchmark::RegisterBenchmark(name, run)->UseManualTime()->Iterations(1);
}

inline int link_bench_main(int argc, char** argv, const LinkSide& side) {
  if (!side.version.empty()) benchmark::AddCustomContext("version", side.version);
  benchmark::Initialize(&argc, argv);
  become_near_host();
  if (side.small_messages) link_row("small_message", side, side.small_bytes, kSmallMessages);
  for (const auto& [name, bytes] : {std::pair{"frame_64_kib", kFrameBytes},
                                    {"frame_1_mib", 1 << 20},
                                    {"frame_16_mib", 16 << 20},
                                    {"frame_64_mib", 64 << 20}}) {
    link_row(name, side, bytes, kLinkBytes / bytes);
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace troupe::transport
