#pragma once
// Replicas of one process as one program: an engine that compiles whole programs puts the collectives of all of them
// into it (learner/engine/engine.hpp has Engine::together). Each replica keeps a Program of its own, with its own
// inputs, metrics and outputs; a thread each drives them, and a run begins when all have come.
#include <cstdint>
#include <memory>
#include <string_view>

namespace troupe::learner {

class Together {
 public:
  virtual ~Together() = default;
  /// One replica cannot come: who waits for it, and who comes later, gets kCancelled until restart().
  virtual void stop(std::string_view why) = 0;
  /// While nobody runs.
  virtual void restart() = 0;
};

/// A replica's place among them.
struct Seat {
  std::shared_ptr<Together> with;  ///< null: it is a program of its own
  int replica = 0;
  int replicas = 1;
  std::int64_t global_batch = 0;
};

}  // namespace troupe::learner
