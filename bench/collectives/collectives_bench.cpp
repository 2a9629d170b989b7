// All-reduces (sum of float32, in place) between threads of one process and between processes of one host.
//
// in_process_P_SIZE: P threads. Its limit, vs_memory, is what threads on all cores reach that only read every rank's
// values once and write them once, in place, with vector instructions and without anybody waiting for anybody: the
// bytes that an all-reduce cannot avoid. processes_P_SIZE: P processes through shared memory; the rivals measure
// the same (rows.hpp). All values lie on page boundaries, where a program's gradients do: 16 bytes past one, where a
// vector's lie, each access of 64 bytes is two, which costs an eighth at 4 MiB.
#include <array>
#include <barrier>
#include <thread>

#include <troupe/bench/collectives/rows.hpp>
#include <troupe/bench/processes.hpp>
#include <troupe/collectives/in_process.hpp>
#include <troupe/collectives/reduce.hpp>
#include <troupe/collectives/shareable_memory.hpp>

namespace troupe::collectives {
namespace {

using namespace std::chrono_literals;

AllReduce sums(Communicator& communicator) {
  return [&communicator](float* values, std::size_t count) {
    const Status status = communicator.all_reduce({values, count}, ReduceOp::kSum, {.name = "bench"})->wait();
    TROUPE_CHECK(status.ok(), "{}", status.error().message);
  };
}

/// Megabytes of one rank's values per second.
double measure_threads(int ranks, std::size_t bytes) {
  InProcessHub hub;
  double result = 0;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      auto communicator = hub.join({.epoch = 1, .rank = rank, .size = ranks}, 10s);
      TROUPE_CHECK(communicator.ok(), "join");
      const ShareableArray memory = make_shareable(bytes);
      const std::span values(reinterpret_cast<float*>(memory.get()), bytes / sizeof(float));
      const double measured = measure_row(rank, values, sums(**communicator));
      if (rank == 0) result = measured;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return result;
}

/// The same bytes, all ranks' values, read and written once by as many threads as can run at once: each multiplies its
/// part by a number, again and again.
double measure_memory(int ranks, std::size_t bytes) {
  const int cores = std::max(1, std::min(ranks, static_cast<int>(std::thread::hardware_concurrency())));
  const std::size_t count = static_cast<std::size_t>(ranks) * bytes / sizeof(float) / static_cast<std::size_t>(cores);
  constexpr float kHalf = 0.5f;
  double took = 0;
  int calls = 1;
  for (; took < kRowSeconds; calls *= 2) {
    std::barrier<> together(cores + 1);
    std::vector<std::thread> threads;
    for (int core = 0; core < cores; ++core) {
      threads.emplace_back([&] {
        const ShareableArray memory = make_shareable(count * sizeof(float));
        auto* const values = reinterpret_cast<float*>(memory.get());
        const std::array<const float*, 1> in{values};
        const std::array<float*, 1> out{values};
        together.arrive_and_wait();
        for (int i = 0; i < calls; ++i) reduce_tree(in, {&kHalf, 1}, ReduceOp::kMean, count, out);
        together.arrive_and_wait();
      });
    }
    together.arrive_and_wait();
    const auto begin = std::chrono::steady_clock::now();
    together.arrive_and_wait();
    took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    for (std::thread& thread : threads) thread.join();
  }
  return static_cast<double>(bytes) / 1e6 * (calls / 2) / took;
}

std::map<std::string, double> measure_processes(int ranks) {
  struct Measured {
    double results[std::size(kRowSizes)];
  };
  const InAllProcesses<Measured> measured;
  in_group_of_processes(ranks, [&](int rank, Communicator& communicator) {
    const Status status = communicator.reform({.epoch = 1, .rank = rank, .size = ranks}, 10s);
    TROUPE_CHECK(status.ok(), "{}", status.error().message);
    for (std::size_t i = 0; i < std::size(kRowSizes); ++i) {
      const std::size_t bytes = kRowSizes[i].second;
      const ShareableArray memory = make_shareable(bytes);
      const std::span values(reinterpret_cast<float*>(memory.get()), bytes / sizeof(float));
      const double result = measure_row(rank, values, sums(communicator));
      if (rank == 0) measured->results[i] = result;
    }
  });
  std::map<std::string, double> results;
  for (std::size_t i = 0; i < std::size(kRowSizes); ++i) results[kRowSizes[i].first] = measured->results[i];
  return results;
}

}  // namespace
}  // namespace troupe::collectives

int main(int argc, char** argv) {
  using namespace troupe::collectives;
  benchmark::Initialize(&argc, argv);
  for (const int ranks : {2, 4}) {
    for (const auto& [size, bytes] : kRowSizes) {
      const std::string name = "in_process_" + std::to_string(ranks) + "_" + size;
      benchmark::RegisterBenchmark(name.c_str(), [ranks, bytes = bytes](benchmark::State& state) {
        for ([[maybe_unused]] auto _ : state) {
          state.counters["value"] = measure_threads(ranks, bytes);
          if (bytes >= 1 << 20) state.counters["vs_memory"] = measure_memory(ranks, bytes);
        }
        state.SetLabel("MB/s");
      })->Iterations(1);
    }
  }
  register_process_rows(measure_processes);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
