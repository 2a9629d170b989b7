#pragma once
// The threads of one program: number 0 is the caller, and each other one sleeps between runs, a moment after the last
// one (core/wait_while.hpp). A thread may run several stripes of the program.
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace troupe::learner {

class ThreadTeam {
 public:
  explicit ThreadTeam(int threads);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int threads() const { return count_; }
  /// Calls job(context, thread) on every thread, 0 being this one, and returns when all have. One caller at a time. In
  /// a job denormal numbers are 0 (flush_denormals.hpp).
  void run(void (*job)(void* context, int thread), void* context);
  /// Inside of a job: returns when every thread has called it. Every thread must.
  void barrier();
  /// Returns when `value`, which only grows and whose every change is notified, is at least `least`.
  static void wait_until(const std::atomic<std::uint32_t>& value, std::uint32_t least);

 private:
  void work(int thread);

  int count_;
  void (*job_)(void*, int) = nullptr;
  void* context_ = nullptr;
  bool stop_ = false;
  alignas(64) std::atomic<std::uint32_t> started_{0};   ///< runs begun
  alignas(64) std::atomic<std::uint32_t> arrived_{0};   ///< threads at the present barrier
  alignas(64) std::atomic<std::uint32_t> released_{0};  ///< barriers passed
  std::vector<std::thread> threads_;
};

}  // namespace troupe::learner
