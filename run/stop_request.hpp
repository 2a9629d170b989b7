#pragma once
// Ctrl-C, SIGTERM and a terminal that is closed (SIGHUP) as a request: the run sees a flag, checkpoints and ends by
// itself.
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>

namespace troupe::apps {

/// While it lives, the first SIGINT, SIGTERM or SIGHUP sets the flag, and a later SIGINT or SIGTERM ends the process at
/// once. (A closed terminal may say SIGHUP several times, and nobody is impatient then.) Under nohup SIGHUP stays
/// ignored. One at a time in a process. SIGPIPE is ignored meanwhile: a closed terminal or pipe must not end a run.
class StopRequest {
 public:
  /// Signals within this time are one request: Slurm signals a whole tree of processes, in which the launcher passes on
  /// what it gets, which takes a busy machine a second.
  static constexpr std::chrono::milliseconds kSameRequest{2000};

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
