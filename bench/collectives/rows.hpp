#pragma once
// What collectives_bench.cpp and its rivals in C++ share: the rows, and how one of them is measured. A row is an
// all-reduce (sum) of float32 over processes of this host, in place, in megabytes of one rank's values per second.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <troupe/core/check.hpp>

namespace troupe::collectives {

inline const std::pair<const char*, std::size_t> kRowSizes[] = {{"4_kib", 4 << 10},    {"64_kib", 64 << 10},
                                                                {"1_mib", 1 << 20},    {"4_mib", 4 << 20},
                                                                {"25_mb", 25'000'000}, {"100_mb", 100'000'000}};
constexpr int kRankCounts[] = {2, 3, 4};
constexpr double kRowSeconds = 0.3;

/// Sums the values over all ranks, in place.
using AllReduce = std::function<void(float* values, std::size_t count)>;

/// Called by every rank at once with its values: megabytes per second of all-reduces one after the other. They are made
/// in rounds, after each of which the ranks agree by an all-reduce outside of the time whether there is another one.
inline double measure_row(int rank, std::span<float> values, const AllReduce& all_reduce) {
  std::ranges::fill(values, 0.0f);  // zeros stay zeros, however often they are summed
  for (int i = 0; i < 3; ++i) all_reduce(values.data(), values.size());
  double best_s = 0;
  double all_s = 0;
  for (int calls = 1;; calls *= 2) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) all_reduce(values.data(), values.size());
    const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    best_s = took / calls;  // of the last round, which is as long as all before it
    all_s += took;
    float goes_on = rank == 0 && all_s < kRowSeconds ? 1.0f : 0.0f;
    all_reduce(&goes_on, 1);
    if (goes_on == 0) return static_cast<double>(values.size_bytes()) / 1e6 / best_s;
  }
}

/// The same of values in memory of its own.
inline double measure_row(int rank, std::size_t bytes, const AllReduce& all_reduce) {
  std::vector<float> values(bytes / sizeof(float));
  return measure_row(rank, values, all_reduce);
}

/// "processes_2_4_kib" and so on. run: all rows of one number of ranks, by the sizes' names.
inline void register_process_rows(const std::function<std::map<std::string, double>(int ranks)>& run) {
  for (const int ranks : kRankCounts) {
    for (const auto& [size, bytes] : kRowSizes) {
      const std::string name = "processes_" + std::to_string(ranks) + "_" + size;
      const auto body = [run, ranks, size = std::string(size)](benchmark::State& state) {
        static std::map<int, std::map<std::string, double>> results;
        for ([[maybe_unused]] auto _ : state) {
          if (!results.contains(ranks)) results[ranks] = run(ranks);
        }
        TROUPE_CHECK(results[ranks].contains(size), "{} ranks did not measure {}", ranks, size);
        state.counters["value"] = results[ranks][size];
        state.SetLabel("MB/s");
      };
      benchmark::RegisterBenchmark(name.c_str(), body)->Iterations(1);
    }
  }
}

}  // namespace troupe::collectives
