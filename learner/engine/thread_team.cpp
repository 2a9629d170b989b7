#include <troupe/learner/engine/thread_team.hpp>

#include <troupe/core/wait_while.hpp>
#include <troupe/learner/engine/cpu/gemm.hpp>
#include <troupe/learner/engine/flush_denormals.hpp>

namespace troupe::learner {

ThreadTeam::ThreadTeam(int threads) : count_(threads) {
  for (int thread = 1; thread < threads; ++thread) threads_.emplace_back([this, thread] { work(thread); });
}

ThreadTeam::~ThreadTeam() {
  stop_ = true;
  started_.fetch_add(1, std::memory_order_release);
  started_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadTeam::wait_until(const std::atomic<std::uint32_t>& value, std::uint32_t least) {
  for (std::uint32_t now = value.load(std::memory_order_acquire); now < least;
       now = value.load(std::memory_order_acquire)) {
    wait_while(value, now);
  }
}

void ThreadTeam::run(void (*job)(void*, int), void* context) {
  enter_compute_thread();  // the caller may be another thread each time
  const FlushDenormals flush;
  if (count_ == 1) return job(context, 0);
  job_ = job;
  context_ = context;
  started_.fetch_add(1, std::memory_order_release);
  started_.notify_all();
  job(context, 0);
  barrier();
}

void ThreadTeam::barrier() {
  if (count_ == 1) return;
  const std::uint32_t round = released_.load(std::memory_order_relaxed);  // cannot move before this thread arrives
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<std::uint32_t>(count_)) {
    arrived_.store(0, std::memory_order_relaxed);
    released_.fetch_add(1, std::memory_order_release);
    released_.notify_all();
  } else {
    wait_while(released_, round);
  }
}

void ThreadTeam::work(int thread) {
  enter_compute_thread();
  const FlushDenormals flush;
  for (std::uint32_t run = 0;; ++run) {
    wait_while(started_, run);
    if (stop_) return;
    job_(context_, thread);
    barrier();
  }
}

}  // namespace troupe::learner
