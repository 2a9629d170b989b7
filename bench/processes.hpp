#pragma once
// Benches over processes of this host: what forks them, what they have in common, and how they become a group.
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include <troupe/collectives/shared_memory.hpp>
#include <troupe/core/check.hpp>

namespace troupe {

/// A T, made of zeros, that the processes forked later have in common. SteadyClock is the same in all of them.
template <typename T>
class InAllProcesses {
 public:
  static_assert(std::is_standard_layout_v<T>);
  InAllProcesses() {
    void* const memory = mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    TROUPE_CHECK(memory != MAP_FAILED, "no shared memory");
    value_ = static_cast<T*>(memory);
  }
  ~InAllProcesses() { munmap(value_, sizeof(T)); }
  InAllProcesses(const InAllProcesses&) = delete;
  InAllProcesses& operator=(const InAllProcesses&) = delete;
  T* operator->() const { return value_; }

 private:
  T* value_;
};

/// Calls run(0) to run(count - 1), each in a process of its own, and waits for them. Before this process has threads.
inline void in_processes(int count, const std::function<void(int)>& run) {
  std::vector<pid_t> children;
  for (int i = 0; i < count; ++i) {
    const pid_t child = fork();
    TROUPE_CHECK(child >= 0, "fork");
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      run(i);
      _exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    TROUPE_CHECK(waitpid(child, &status, 0) == child && status == 0, "a process ended with status {}", status);
  }
}

/// The same of the ranks of a group, with a communicator each that is still to be formed, through shared memory.
inline void in_group_of_processes(int ranks, const std::function<void(int rank, collectives::Communicator&)>& run) {
  struct Meeting {
    std::atomic<int> has_ticket;
    char ticket[128];
  };
  const InAllProcesses<Meeting> meeting;
  in_processes(ranks, [&](int rank) {
    const auto exchange = [&](const collectives::GroupView&, std::string mine, auto) -> Result<std::string> {
      if (rank == 0) {
        std::strncpy(meeting->ticket, mine.c_str(), sizeof meeting->ticket - 1);
        meeting->has_ticket = 1;
      }
      while (meeting->has_ticket == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return std::string(meeting->ticket);
    };
    run(rank, *collectives::make_shared_memory_communicator(exchange));
  });
}

}  // namespace troupe
