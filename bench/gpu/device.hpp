#pragma once
// What the benches share that run with --device: the GPU, rows, rates. bench/gpu_rows.py is the same for the rivals.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <troupe/gpu/gpu.hpp>

namespace troupe::bench {

/// The GPU that run.py names in TROUPE_BENCH_DEVICE, "cuda:1"; -1 where it names none.
inline int device_index() {
  const char* const text = std::getenv("TROUPE_BENCH_DEVICE");
  if (text == nullptr) return -1;
  const std::string_view name(text);
  constexpr std::string_view kPrefix = "cuda:";
  if (!name.starts_with(kPrefix)) {
    std::fprintf(stderr, "TROUPE_BENCH_DEVICE is %s, expected cuda:0, cuda:1, ...\n", text);
    std::exit(1);
  }
  return std::atoi(text + kPrefix.size());
}

/// Ends the process with one line where the GPU cannot be used, or the environment names none.
inline std::shared_ptr<const gpu::Gpu> open_gpu() {
  auto opened = gpu::Gpu::open(device_index());
  if (!opened.ok()) {
    std::fprintf(stderr, "%s\n", opened.error().message.c_str());
    std::exit(1);
  }
  opened.value()->use().value();
  return opened.value();
}

/// Everything tiny, in rows called trial_...: shows on the emulated device that all of it runs.
inline bool trial() {
  const char* const text = std::getenv("TROUPE_BENCH_TRIAL");
  return text != nullptr && std::string_view(text) == "1";
}
template <typename T>
T tiny(T real, T in_trial) {
  return trial() ? std::move(in_trial) : std::move(real);
}

/// How long a row goes on, as run.py's --seconds has it in TROUPE_BENCH_SECONDS.
inline double seconds_of_row() {
  const char* const text = std::getenv("TROUPE_BENCH_SECONDS");
  return tiny(text != nullptr ? std::atof(text) : 3.0, 0.2);
}

/// Seconds that one call takes: the median of the means over five parts of seconds_of_row(), after calls that warm up.
/// `call` returns when all is done.
inline double seconds_of(const std::function<void()>& call) {
  using Clock = std::chrono::steady_clock;
  for (int i = 0; i < tiny(3, 2); ++i) call();  // the second one is recorded
  std::array<double, 5> means;
  const std::chrono::duration<double> wanted(seconds_of_row() / means.size());
  for (double& mean : means) {
    const auto begin = Clock::now();
    std::int64_t calls = 0;
    do {
      call();
      ++calls;
    } while (Clock::now() - begin < wanted);
    mean = std::chrono::duration<double>(Clock::now() - begin).count() / static_cast<double>(calls);
  }
  std::ranges::nth_element(means, means.begin() + means.size() / 2);
  return means[means.size() / 2];
}

/// A row whose value, and vs_NAME for its limits, `measure` writes into the counters.
inline void add_row(const std::string& name, const std::string& unit,
                    std::function<void(benchmark::UserCounters&)> measure) {
  benchmark::RegisterBenchmark(((trial() ? "trial_" : "") + name).c_str(),
                               [unit, measure = std::move(measure)](benchmark::State& state) {
                                 for ([[maybe_unused]] auto _ : state) measure(state.counters);
                                 state.SetLabel(unit);
                               })
      ->Iterations(1)
      ->UseRealTime();
}

inline int run_rows(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace troupe::bench
