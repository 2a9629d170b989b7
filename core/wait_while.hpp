#pragma once
// Waiting for threads of one's own process that are about to come: of a learner's program and of a vector of
// environments.
#include <atomic>
#include <chrono>
#include <cstdint>

#include <troupe/core/pause_briefly.hpp>

namespace troupe {

/// Returns when `value`, whose every change is notified, is no longer `old`. Looks for some 50 us before it sleeps,
/// since rounds mostly follow each other soon and waking a sleeper costs more than that; longer it does not, because
/// actors share the cores: pure spinning on oversubscribed cores was measured to cost more than all the work. It does
/// not yield: on a busy machine that gives the core away for milliseconds (measured: the caller then does nearly all of
/// the work).
inline void wait_while(const std::atomic<std::uint32_t>& value, std::uint32_t old) {
  using Clock = std::chrono::steady_clock;
  const auto has_changed = [&] {
    constexpr int kLooksBetweenClocks = 64;
    for (int look = 0; look < kLooksBetweenClocks; ++look) {
      if (value.load(std::memory_order_acquire) != old) return true;
      pause_briefly();
    }
    return false;
  };
  if (has_changed()) return;
  for (const auto end = Clock::now() + std::chrono::microseconds(50); Clock::now() < end;) {
    if (has_changed()) return;
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace troupe
