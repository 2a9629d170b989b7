#pragma once
// What one rank of a group is doing right now, for the others that wait for it: the difference between a hang and
// "step 412: rank 3 (node B, learner-1) has not entered all_reduce(critic); it is in input_fn for 7.1 s".
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include <troupe/core/clock.hpp>

namespace troupe::collectives {

/// Thread-safe: the rank's own thread writes, whoever waits for it reads. A call costs a lock that nobody holds.
class Activity {
 public:
  struct Now {
    std::int64_t step = 0;
    std::string what;  ///< "input_fn", "compute", "all_reduce(critic)"; empty: nothing was said yet
    Duration since{};  ///< how long it has been at that, on real time
  };

  void enter(std::string_view what) {
    const std::lock_guard lock(mutex_);
    what_ = what;
    began_ = std::chrono::steady_clock::now();
  }
  void begin_step(std::int64_t step) {
    const std::lock_guard lock(mutex_);
    step_ = step;
  }
  Now now() const {
    const std::lock_guard lock(mutex_);
    return {step_, what_, std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - began_)};
  }

 private:
  mutable std::mutex mutex_;
  std::int64_t step_ = 0;
  std::string what_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

}  // namespace troupe::collectives
