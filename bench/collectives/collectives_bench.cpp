// All-reduces (sum of float32, in place) between threads of one process and between processes of one host.
//
// in_process_P_SIZE: P threads. Its limit, vs_memory, is what threads on all cores reach that only read every rank's
// values once and write them once, in place, with vector instructions and without anybody waiting for anybody: the
// bytes that an all-reduce cannot avoid. processes_P_SIZE: P processes through shared memory; the rivals measure
// the same (rows.hpp).
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <barrier>
#include <cstring>
#include <thread>

#include <troupe/bench/collectives/rows.hpp>
#include <troupe/collectives/in_process.hpp>
#include <troupe/collectives/reduce.hpp>
#include <troupe/collectives/shared_memory.hpp>

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
      const double measured = measure_row(rank, bytes, sums(**communicator));
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
        std::vector<float> values(count, 0.0f);
        const std::array<const float*, 1> in{values.data()};
        const std::array<float*, 1> out{values.data()};
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

struct Meeting {
  std::atomic<int> has_ticket;
  char ticket[128];
  double results[std::size(kRowSizes)];
};

void run_process(int rank, int ranks, Meeting& meeting) {
  const auto communicator =
      make_shared_memory_communicator([&](const GroupView&, std::string mine, auto) -> Result<std::string> {
        if (rank == 0) {
          std::strncpy(meeting.ticket, mine.c_str(), sizeof meeting.ticket - 1);
          meeting.has_ticket = 1;
        }
        while (meeting.has_ticket == 0) std::this_thread::sleep_for(1ms);
        return std::string(meeting.ticket);
      });
  const Status status = communicator->reform({.epoch = 1, .rank = rank, .size = ranks}, 10s);
  TROUPE_CHECK(status.ok(), "{}", status.error().message);
  for (std::size_t i = 0; i < std::size(kRowSizes); ++i) {
    const double result = measure_row(rank, kRowSizes[i].second, sums(*communicator));
    if (rank == 0) meeting.results[i] = result;
  }
}

std::map<std::string, double> measure_processes(int ranks) {
  void* const memory = mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  TROUPE_CHECK(memory != MAP_FAILED, "mmap");
  auto& meeting = *static_cast<Meeting*>(memory);
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = fork();
    TROUPE_CHECK(child >= 0, "fork");
    if (child == 0) {
      run_process(rank, ranks, meeting);
      _exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    TROUPE_CHECK(waitpid(child, &status, 0) == child && status == 0, "a rank failed");
  }
  std::map<std::string, double> results;
  for (std::size_t i = 0; i < std::size(kRowSizes); ++i) results[kRowSizes[i].first] = meeting.results[i];
  munmap(memory, sizeof(Meeting));
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
