#pragma once
// What one rank of a group is doing right now, for the others that wait for it: the difference between a hang and
// "step 412: rank 3 (node B, learner-1) has not entered all_reduce(critic); it is in input_fn for 7.1 s".
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include <troupe/core/clock.hpp>

namespace troupe::collectives {

class ActivityMirror;

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
    show();
  }
  void begin_step(std::int64_t step) {
    const std::lock_guard lock(mutex_);
    step_ = step;
    show();
  }
  Now now() const {
    const std::lock_guard lock(mutex_);
    return {step_, what_, std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - began_)};
  }
  /// From now on `mirror` shows the same, until another one or null takes its place; it must live until then.
  void show_in(ActivityMirror* mirror) {
    const std::lock_guard lock(mutex_);
    mirror_ = mirror;
    show();
  }

 private:
  inline void show();

  mutable std::mutex mutex_;
  std::int64_t step_ = 0;
  std::string what_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  ActivityMirror* mirror_ = nullptr;
};

/// The same in memory that other processes of this host read, whose steady clocks are one. One writer (an Activity); a
/// reader never waits for it, not even for one that was killed as it wrote. Zero bytes are a valid one.
class ActivityMirror {
 public:
  void write(std::int64_t step, std::string_view what, std::chrono::steady_clock::time_point began) {
    std::array<char, sizeof(words_)> text{};
    std::memcpy(text.data(), what.data(), std::min(what.size(), text.size() - 1));
    const std::uint32_t version = version_.load(std::memory_order_relaxed);
    version_.store(version | 1U, std::memory_order_relaxed);  // odd while it changes
    step_.store(step, std::memory_order_release);             // no release store passes the one before it
    began_.store(began.time_since_epoch().count(), std::memory_order_release);
    for (std::size_t i = 0; i < words_.size(); ++i) {
      std::uint64_t word = 0;
      std::memcpy(&word, text.data() + i * sizeof word, sizeof word);
      words_[i].store(word, std::memory_order_release);
    }
    version_.store((version | 1U) + 1, std::memory_order_release);
  }

  /// Without `what` when the writer is not done in time.
  Activity::Now now() const {
    for (int tries = 0; tries < 1000; ++tries) {
      const std::uint32_t version = version_.load(std::memory_order_acquire);
      const std::int64_t step = step_.load(std::memory_order_acquire);
      const std::chrono::steady_clock::duration began(began_.load(std::memory_order_acquire));
      std::array<char, sizeof(words_)> text{};
      for (std::size_t i = 0; i < words_.size(); ++i) {
        const std::uint64_t word = words_[i].load(std::memory_order_acquire);
        std::memcpy(text.data() + i * sizeof word, &word, sizeof word);
      }
      if (version % 2 == 1 || version_.load(std::memory_order_relaxed) != version) continue;
      const auto end = std::find(text.begin(), text.end() - 1, '\0');
      return {step, std::string(text.begin(), end), std::chrono::steady_clock::now().time_since_epoch() - began};
    }
    return {};
  }

 private:
  std::atomic<std::uint32_t> version_{0};
  std::atomic<std::int64_t> step_{0};
  std::atomic<std::chrono::steady_clock::rep> began_{0};
  std::array<std::atomic<std::uint64_t>, 14> words_{};  // a text of at most 111 characters, ended by zeros
};

inline void Activity::show() {
  if (mirror_) mirror_->write(step_, what_, began_);
}

}  // namespace troupe::collectives
