#pragma once
// Reduces a program's gradients over replicas while its threads still compute others: large models' gradients are cut
// into buckets, stretches of the flat buffers, and a thread of the program's own reduces each as soon as all of its
// gradients are there. Backward reaches the last layer first, so most of the exchange hides behind the rest of it
// (Li et al. 2020, arXiv 2006.15704). Private to Program.
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <troupe/core/error.hpp>

namespace troupe::learner {

class GradientExchange {
 public:
  struct Bucket {
    std::size_t minimized = 0;
    std::int64_t begin = 0, end = 0;  ///< elements of its flat gradient
    std::size_t ready = 0;            ///< the call that writes the last of them
    std::string name;
  };

  /// buckets: by `ready`, which is the same order on all replicas. threads: of the program, all of which arrive.
  GradientExchange(std::vector<Bucket> buckets, int threads, std::function<Status(const Bucket&)> reduce);
  ~GradientExchange();
  GradientExchange(const GradientExchange&) = delete;
  GradientExchange& operator=(const GradientExchange&) = delete;

  const std::vector<Bucket>& buckets() const { return buckets_; }

  /// A run begins; no thread is in the one before.
  void begin();
  /// A thread has passed the bucket's `ready`; each thread says so of every bucket, in order.
  void arrive(std::size_t bucket);
  /// A thread stops early: what was not begun is not reduced.
  void cancel();
  /// Waits until all buckets with `ready` before this call are reduced, or the run has failed: collectives inside of
  /// the step come at the same place among them on all replicas. Bounded by the collectives' own timeouts.
  void await_before(std::size_t call);
  /// Waits for all, and says how they went.
  Status finish();

 private:
  void work();

  const std::vector<Bucket> buckets_;
  const int threads_;
  const std::function<Status(const Bucket&)> reduce_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int> arrived_;  // by bucket
  std::size_t done_ = 0;
  std::uint64_t run_ = 0;
  bool active_ = false, cancelled_ = false, stop_ = false;
  Status status_;
  std::thread thread_;  // the last member: it uses the others
};

}  // namespace troupe::learner
