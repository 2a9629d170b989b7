#pragma once
// Runs a topology: an actor system, the chief and a node in it, and the thread that waits for the end. Alone, this
// process is the whole run; as one node of several it hosts what the chief, here or elsewhere, places on it.
// Two ways, the same roles: on threads in real time, or one step at a time in virtual time, where two runs with one
// seed execute the same steps in the same order and see the same times, over nodes too.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/actors/control/runtime_options.hpp>
#include <troupe/actors/runtime/topology.hpp>
#include <troupe/core/clock.hpp>
#include <troupe/core/error.hpp>

namespace troupe::actors {

/// Not thread-safe: one thread makes, runs and destroys it.
class Runtime {
 public:
  /// Checks the topology, over nodes also the types that it sends (check_message_types()), and on the chief the
  /// placement; spawns nothing yet. Errors: those of the checks; kInvalidArgument for options that exclude each other;
  /// kUnavailable when there are not enough threads.
  static Result<std::unique_ptr<Runtime>> make(Topology topology, RuntimeOptions options);
  /// stop(), if nobody has called it.
  ~Runtime();

  /// The clock that roles see. Its zero is the start of the runtime.
  const Clock& clock() const;

  enum class Ended {
    kComplete,  ///< a role that completes the run is done; on a node that is not the chief's: the chief ended the run
    kInterrupted,  ///< interrupt() said so; the roles go on, and run() may be called again
    kStopped,      ///< an operator asked the chief for the end; the roles go on, as above
  };

  /// Starts the roles at the first call and runs them. `interrupt` is called on this thread, some 20 times a second in
  /// real time and between slices in virtual time.
  /// Errors: of the instance that failed for good; kCancelled on a node that was fenced; in virtual time also kInternal
  /// when all roles wait for each other, which is certain there. (On threads an instance that waits for long is named
  /// in the log.)
  Result<Ended> run(const std::function<bool()>& interrupt);

  /// Pauses all instances, saves them and the frames between them, lets them go on, and returns when the checkpoint is
  /// on disk, with the counters of all instances, "<instance>/<counter>". Instances that are being restarted are waited
  /// for, at most for `patience` (none: the cut's deadline). On the chief's node only.
  /// Errors: kDeadlineExceeded naming the silent instances; kUnavailable while one is being restarted; kNotFound while
  /// one has not come up for the first time; a role's own; the writer's.
  Result<std::vector<messages::Counter>> checkpoint(std::optional<Duration> patience = std::nullopt);
  /// Lets so much time pass between two tries; in virtual time, where nothing outside of the run changes, none.
  void wait(Duration duration);

  /// The run as `troupe status` shows it, as JSON (run_status.hpp). On the chief's node only. Errors:
  /// kDeadlineExceeded.
  Result<std::string> status();

  /// Stops every instance here, on the chief all other nodes too, and waits until all actors are gone. Returns the time
  /// of that moment; nothing else may be called after it.
  Duration stop();

 private:
  struct Impl;
  explicit Runtime(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe::actors
