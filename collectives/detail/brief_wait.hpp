#pragma once
// How a rank waits for the ranks of its own host before it sleeps. Private to the back ends in memory. Going to sleep
// and being woken costs some tens of microseconds, which is what a small collective takes altogether; a rank that only
// spins takes the core of the rank that it waits for, and one that gives its core away too soon waits for its next turn
// though the others were about to come. So it looks for a while unless whom it waits for needs this core, gives it away
// (sched_yield: a system call of 0.6 us, or the other rank's turn), looks again, and sleeps when that did not help.
#include <sched.h>

#include <chrono>
#include <optional>

#include <troupe/core/pause_briefly.hpp>

namespace troupe::collectives::detail {

/// Of one rank; not for several threads.
class BriefWait {
 public:
  /// Calls `over` until it says true or some 100 us have passed; its last answer. is_needed: whether a rank that this
  /// one waits for can only come once it has this core. Where whoever got the core kept it for long, this rank's next
  /// waits do not give it away: the scheduler brings a sleeper back sooner than one that yields.
  template <typename Over, typename IsNeeded>
  bool until(const Over& over, const IsNeeded& is_needed) {
    if (over()) return true;
    if (sleeps_ > 0) {
      --sleeps_;
      return false;
    }
    std::optional<Clock::time_point> begin;
    for (;;) {
      const int looks = is_needed() ? 1 : kLooks;
      for (int look = 0; look < looks; ++look) {
        if (over()) return true;
        pause_briefly();
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

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr auto kBrief = std::chrono::microseconds(100);
  static constexpr auto kLong = std::chrono::milliseconds(1);
  static constexpr int kLooks = 100;   // some 3 us
  static constexpr int kSleeps = 100;  // waits, after which it tries again

  int sleeps_ = 0;
};

}  // namespace troupe::collectives::detail
