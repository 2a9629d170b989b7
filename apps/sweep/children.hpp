#pragma once
// Several programs, a bounded number of them at a time, each a child process that cannot outlive its parent: the runs
// of a sweep on this machine. It knows nothing of runs.
#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <troupe/core/clock.hpp>
#include <troupe/core/error.hpp>

namespace troupe::apps {

struct ChildCommand {
  std::vector<std::string> command;
  std::filesystem::path log;  ///< what it says on both standard streams is added here
};

struct ChildEnding {
  bool signalled = false;
  int number = 0;          ///< of the signal, or the exit code
  std::string error = {};  ///< why there was no process at all; empty: there was one
};
/// "exit code 1", "signal 9", "it could not be started: ...".
std::string in_words(const ChildEnding& ending);

struct ChildrenOptions {
  std::size_t jobs = 1;  ///< children at a time
  /// Gives each of `jobs` places a share of the processors that this process may use, as equal as it can be, so that no
  /// child computes at the cost of another and their times can be compared. With more places than processors all have
  /// all.
  bool share_processors = true;
  Duration stop_grace = std::chrono::seconds(120);  ///< from the wish to stop to SIGKILL
  std::function<void(std::size_t)> begins = {};     ///< a child, by its number, is about to be started
  std::function<void(std::size_t, const ChildEnding&)> ends = {};
  std::function<void()> meanwhile = {};  ///< called a few times a second while children run
};

/// Starts all commands in their order and returns when all that were started have ended: how many signals asked for an
/// end meanwhile, 0 when none did. On the first SIGINT, SIGTERM or SIGHUP no more are started and those that run get
/// SIGTERM; what does not end within stop_grace is killed, and so is everything on a second one, which is counted only
/// when it is impatient (StopRequest). Takes these signals and SIGCHLD for itself meanwhile, so it is to be called before
/// other threads are started. Children are process groups of their own and die with the thread that called. Errors: kIo:
/// there are no signals to be had; nothing was started.
Result<int> run_children(const std::vector<ChildCommand>& commands, const ChildrenOptions& options);

}  // namespace troupe::apps
