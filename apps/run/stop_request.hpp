#pragma once
// Ctrl-C and SIGTERM as a request: the run sees a flag, checkpoints and ends by itself.
#include <atomic>
#include <chrono>

namespace troupe::apps {

/// While it lives, the first SIGINT or SIGTERM sets the flag, and a later one ends the process at once. One at a time
/// in a process. SIGPIPE is ignored meanwhile: a closed terminal or pipe must not end a run.
class StopRequest {
 public:
  /// What comes within this time is the same request: Slurm signals a whole tree of processes, in which the launcher
  /// passes on what it gets.
  static constexpr std::chrono::milliseconds kSameRequest{500};

  StopRequest();
  ~StopRequest();  ///< Restores the default handling.
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  const std::atomic<bool>& flag() const;
};

}  // namespace troupe::apps
