#pragma once
// How ranks wait for each other when one of them runs at a time. Ranks on threads of their own sleep on a condition
// variable until the others have come; where all take turns, as in a deterministic run, the others come only once the
// waiting rank has given its turn away. Used by InProcessHub; the one that schedules is actors/runtime/turns.hpp.
#include <functional>

#include <troupe/core/clock.hpp>

namespace troupe::collectives {

class CooperativeScheduler {
 public:
  virtual ~CooperativeScheduler() = default;

  /// The time on the scheduler's clock.
  virtual Duration now() const = 0;

  /// Gives the caller's turn away until `over` says true, which is asked between the turns of others, while none of
  /// them runs. timeout: on the scheduler's own clock, so that no bit of a result depends on how fast a machine is.
  /// False: nobody waits any longer, because the time is up, the scheduler ends, or it has no turn to give instead.
  virtual bool yield_until(const std::function<bool()>& over, Duration timeout) = 0;
};

}  // namespace troupe::collectives
