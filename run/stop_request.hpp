#pragma once
// Ctrl-C, SIGTERM and a terminal that is closed (SIGHUP) as a request: the run sees a flag, checkpoints and ends by
// itself.
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>

namespace troupe::apps {

/// While it lives, the first SIGINT, SIGTERM or SIGHUP sets the flag, and a later one that is_impatient() ends the
/// process at once. Under nohup SIGHUP stays ignored. One at a time in a process. SIGPIPE is ignored meanwhile: a
/// closed terminal or pipe must not end a run.
class StopRequest {
 public:
  /// SIGTERM within this time is the same request: Slurm signals a whole tree of processes, in which srun and launchers
  /// pass on what they get, which takes a busy machine a second.
  static constexpr std::chrono::milliseconds kSameRequest{2000};
  /// Whether a signal so long after the first one asks for the end at once: a second Ctrl-C does, SIGTERM not within
  /// kSameRequest. SIGHUP never: a closed terminal may say it several times.
  static constexpr bool is_impatient(int signal, std::chrono::nanoseconds after_first) {
    return signal == SIGINT || (signal == SIGTERM && after_first >= kSameRequest);
  }

  StopRequest();
  ~StopRequest();  ///< Restores how the signals were handled before.
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  const std::atomic<bool>& flag() const;

 private:
  static constexpr std::array kSignals = {SIGHUP, SIGINT, SIGTERM, SIGPIPE};
  std::array<struct sigaction, kSignals.size()> before_ = {};
};

}  // namespace troupe::apps
