#pragma once
// Ctrl-C and SIGTERM as a request: the run sees a flag, checkpoints and ends by itself.
#include <atomic>

namespace troupe::apps {

/// While it lives, the first SIGINT or SIGTERM sets the flag and restores the default handling, so that a second one
/// ends the process at once. One at a time in a process. SIGPIPE is ignored meanwhile: a closed terminal or pipe
/// must not end a run.
class StopRequest {
 public:
  StopRequest();
  ~StopRequest();  ///< Restores the default handling.
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  const std::atomic<bool>& flag() const;
};

}  // namespace troupe::apps
