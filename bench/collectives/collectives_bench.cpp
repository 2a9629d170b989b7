// All-reduces (sum of float32, in place) between threads of one process and between processes of one host.
//
// in_process_P_SIZE: P threads. Its limit, vs_memory, is what as many threads reach that only read every rank's values
// once and write them once, in place and without anybody waiting for anybody: the bytes that an all-reduce cannot
// avoid. processes_P_SIZE: P processes through shared memory; the rivals measure the same (rows.hpp).
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <cstring>
#include <thread>

#include <troupe/bench/collectives/rows.hpp>
#include <troupe/collectives/in_process.hpp>
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

/// The same bytes, read and written once by as many threads: each multiplies its own values by a number.
double measure_memory(int ranks, std::size_t bytes) {
  std::barrier<> together(ranks);
  double result = 0;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      // An all-reduce of one value keeps measure_row's rounds in step, as it does for the others.
      static std::atomic<float> flag;
      const double measured = measure_row(rank, bytes, [&](float* values, std::size_t count) {
        if (count == 1) {
          if (rank == 0) flag = *values;
          together.arrive_and_wait();
          *values = flag;
          together.arrive_and_wait();
          return;
        }
        for (std::size_t i = 0; i < count; ++i) values[i] *= 0.5f;
        benchmark::DoNotOptimize(values);
      });
      if (rank == 0) result = measured;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return result;
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
