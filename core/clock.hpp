#pragma once
// Time comes in by constructor. Real runs use SteadyClock; tests and deterministic runs use ManualClock, whose time
// moves only when somebody moves it, so that two runs write the same times.
#include <atomic>
#include <chrono>

namespace troupe {

using Duration = std::chrono::nanoseconds;

/// Monotonic time since an arbitrary start. Safe to call from any thread.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Duration now() const = 0;
};

class SteadyClock final : public Clock {
 public:
  Duration now() const override { return std::chrono::steady_clock::now().time_since_epoch(); }
};

class ManualClock final : public Clock {
 public:
  Duration now() const override { return Duration(now_.load(std::memory_order_relaxed)); }
  void advance(Duration by) { now_.fetch_add(by.count(), std::memory_order_relaxed); }

 private:
  std::atomic<Duration::rep> now_{0};
};

inline double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }
inline Duration from_seconds(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

}  // namespace troupe
