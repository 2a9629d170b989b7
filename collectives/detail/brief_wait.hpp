#pragma once
// How a rank waits for the ranks of its own host before it sleeps. Private to the back ends in memory. Going to sleep
// and being woken costs some tens of microseconds, which is what a small collective takes altogether; a rank that only
// spins takes the core of the rank that it waits for. So it looks, gives its core away (sched_yield: a system call of
// 0.6 us, or the other rank's turn), looks again, and sleeps when that did not help.
#include <sched.h>

#include <chrono>
#include <optional>
#include <thread>

namespace troupe::collectives::detail {

/// Of one rank; not for several threads.
class BriefWait {
 public:
  /// ranks: of the group on this host.
  explicit BriefWait(int ranks) : looks_(static_cast<int>(std::thread::hardware_concurrency()) >= ranks ? kLooks : 1) {}

  /// Calls `over` until it says true or some 100 us have passed; its last answer. Where whoever got the core kept it
  /// for long, this rank's next waits do not give it away: the scheduler brings a sleeper back sooner than one that
  /// yields.
  template <typename Over>
  bool until(const Over& over) {
    if (over()) return true;
    if (sleeps_ > 0) {
      --sleeps_;
      return false;
    }
    std::optional<Clock::time_point> begin;
    for (;;) {
      for (int look = 0; look < looks_; ++look) {
        if (over()) return true;
        pause();
      }
      const auto gave_away = Clock::now();
      if (!begin) begin = gave_away;
      if (gave_away - *begin > kBrief) return false;
      sched_yield();
      if (Clock::now() - gave_away > kLong) {
        sleeps_ = kSleeps;
        return over();
      }
    }
  }

  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr auto kBrief = std::chrono::microseconds(100);
  static constexpr auto kLong = std::chrono::milliseconds(1);
  static constexpr int kLooks = 100;   // some 3 us, on a core of its own
  static constexpr int kSleeps = 100;  // waits, after which it tries again

  const int looks_;
  int sleeps_ = 0;
};

}  // namespace troupe::collectives::detail
