#pragma once
// Waiting for what other threads do, for tests.
#include <chrono>
#include <thread>

namespace troupe::testing {

/// Waits until `condition` holds; false when it does not in time.
template <typename Condition>
bool eventually(Condition condition, std::chrono::nanoseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // a condition may be a question to a node
  }
  return true;
}

}  // namespace troupe::testing
