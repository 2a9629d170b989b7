#pragma once
// The threads of one program: number 0 is the caller, each other one sleeps between runs. What it calls a shard is one
// of these threads, which may run several shards of the program.
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace troupe::learner {

/// Waiting spins for a few microseconds and then sleeps in the kernel, because actors share the learner's cores: pure
/// spinning on oversubscribed cores was measured to cost more than all the work.
class ShardPool {
 public:
  explicit ShardPool(int shards);
  ~ShardPool();
  ShardPool(const ShardPool&) = delete;
  ShardPool& operator=(const ShardPool&) = delete;

  int shards() const { return shards_; }
  /// Calls job(context, shard) for every shard, 0 on this thread, and returns when all have. One caller at a time.
  void run(void (*job)(void* context, int shard), void* context);
  /// Inside of a job: returns when every shard has called it. Every shard must.
  void barrier();
  /// Returns when `value`, which only grows and whose every change is notified, is at least `least`.
  static void wait_until(const std::atomic<std::uint32_t>& value, std::uint32_t least);

 private:
  void work(int shard);
  static void wait_while(const std::atomic<std::uint32_t>& value, std::uint32_t old);

  int shards_;
  void (*job_)(void*, int) = nullptr;
  void* context_ = nullptr;
  bool stop_ = false;
  alignas(64) std::atomic<std::uint32_t> started_{0};   ///< runs begun
  alignas(64) std::atomic<std::uint32_t> arrived_{0};   ///< shards at the present barrier
  alignas(64) std::atomic<std::uint32_t> released_{0};  ///< barriers passed
  std::vector<std::thread> threads_;
};

}  // namespace troupe::learner
