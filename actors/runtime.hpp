#pragma once
// Runs a topology in this process: an actor system, the supervisor in it, and the thread that waits for the end.
// Two ways, the same roles: on threads in real time, or on one thread in virtual time, where two runs with one seed
// execute the same steps in the same order and see the same times.
#include <atomic>
#include <functional>
#include <memory>
#include <optional>

#include <troupe/actors/role.hpp>
#include <troupe/actors/topology.hpp>
#include <troupe/core/clock.hpp>
#include <troupe/core/error.hpp>

namespace troupe::actors {

/// The state of every instance at one moment. Opaque here; actors/checkpoint turns it into files and back.
struct Cut;

struct RuntimeOptions {
  std::uint64_t seed = 0;
  bool deterministic = false;  ///< one thread, virtual time
  Duration report_period = std::chrono::seconds(1);
  Duration cut_deadline = std::chrono::seconds(30);
  std::shared_ptr<const Cut> resume_from;  ///< null: a fresh run
  /// Writes a checkpoint; see actors/checkpointer.hpp. Empty: there are none.
  std::function<Status(std::shared_ptr<const Cut>)> write_cut;
  Duration checkpoint_period{};  ///< 0: only when checkpoint() is called
};

/// Not thread-safe: one thread makes, runs and destroys it.
class Runtime {
 public:
  /// Checks the topology (errors: see check()); spawns nothing yet.
  static Result<std::unique_ptr<Runtime>> make(Topology topology, RuntimeOptions options);
  /// stop(), if nobody has called it.
  ~Runtime();

  /// The clock that roles see. Its zero is the start of the runtime.
  const Clock& clock() const;

  enum class Ended { kComplete, kInterrupted };

  /// Starts the roles at the first call and runs them until a role that completes the run is done (kComplete) or
  /// `interrupt` returns true (kInterrupted; the roles go on, so run() may be called again). `interrupt` is called on
  /// this thread, some 20 times a second in real time and between slices in virtual time.
  /// Errors: of the instance that failed for good; in virtual time also kInternal when all roles wait for each other,
  /// which is certain there. (On threads an instance that waits for long is named in the log.)
  Result<Ended> run(const std::function<bool()>& interrupt);

  /// Pauses all instances, saves them and the frames between them, lets them go on, and returns when the checkpoint is
  /// on disk. Errors: kDeadlineExceeded naming the silent instances; kUnavailable while one is being restarted; a
  /// role's own; the writer's.
  Status checkpoint();

  /// Stops every instance and waits until all are gone. Returns the time of that moment; run() and checkpoint() must
  /// not be called after it.
  Duration stop();

 private:
  struct Impl;
  explicit Runtime(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe::actors
