#pragma once
// Runs a topology: an actor system, the chief and a node in it, and the thread that waits for the end. Alone, this
// process is the whole run; as one node of several it hosts what the chief, here or elsewhere, places on it.
// Two ways, the same roles: on threads in real time, or on one thread in virtual time, where two runs with one seed
// execute the same steps in the same order and see the same times.
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/actors/control/chief_journal.hpp>
#include <troupe/actors/control/committed_cuts.hpp>
#include <troupe/actors/control/membership.hpp>
#include <troupe/actors/control/placement.hpp>
#include <troupe/actors/runtime/remote.hpp>
#include <troupe/actors/runtime/role.hpp>
#include <troupe/actors/runtime/topology.hpp>
#include <troupe/core/clock.hpp>
#include <troupe/core/error.hpp>

namespace troupe::actors {

/// The state of the instances of a node at one moment. Opaque here; actors/control/run_checkpoint turns it into files
/// and back.
struct Cut;
struct InstanceState;

/// This process is one node of several.
struct NodeOptions {
  std::string name;            ///< kChiefNode: it also runs the chief
  Network* network = nullptr;  ///< outlives the runtime, which starts and stops it
  std::uint64_t birth = 0;     ///< random, of this process
  std::uint64_t config_hash = 0;
  messages::ControlNode address;   ///< where other nodes reach this one
  std::vector<std::string> roles;  ///< that its certificate allows it to host
  /// Of a node that is not in the placement: how many instances it offers to host of each elastic role of these.
  std::int64_t elastic_instances = 1;
  std::string host;                 ///< nodes with the same one share memory; empty: with nobody
  std::filesystem::path directory;  ///< instances' own durable folders are made in it
  MembershipOptions membership;
  Duration orphaned_after = std::chrono::seconds(60);  ///< a node without a chief for so long ends with an error
  /// A step that takes longer hangs; `on_hang` should end the process, which its starter replaces. 0: nobody watches.
  Duration step_timeout{};
  std::function<void(const std::string& instance)> on_hang;
  /// An instance failed with Code::kLost, for the reason `why`, and the chief has been told; this should end the
  /// process as on_hang does. Empty: the node ends with that error. Not for the chief's node: there the run ends, or
  /// goes on without the instance if its role has others (RestartPolicy::quarantine).
  std::function<void(const std::string& why)> on_lost;
  CutParts parts;  ///< of this node, beside RuntimeOptions::write_cut
  /// The state of an instance in a committed cut, which has it; called on the instance's thread.
  std::function<Result<std::shared_ptr<const InstanceState>>(const std::string& instance, std::uint64_t cut)> load;

  // The chief's node only.
  std::string run;                    ///< name of the run
  std::vector<PlacedNode> placement;  ///< of all instances
  std::filesystem::path journal;
  // Of ChiefOptions.
  std::vector<CommittedCut> resume_from;
  CommittedCut committed;
  std::function<Status(const CommittedCut& cut)> commit;
  std::function<std::vector<std::uint64_t>()> kept;
  std::function<Status(std::uint64_t number)> resumed_from;
};

struct RuntimeOptions {
  std::uint64_t seed = 0;
  bool deterministic = false;           ///< one thread, virtual time; not of one node of several
  std::filesystem::path run_directory;  ///< RoleIdentity::run_directory
  Duration report_period = std::chrono::seconds(1);
  Duration cut_deadline = std::chrono::seconds(30);
  std::shared_ptr<const Cut> resume_from;  ///< null: a fresh run; only when this process is the whole run
  /// Writes this node's part of a checkpoint, on a thread of its own; may block for the disk. Empty: there are none.
  std::function<Status(std::shared_ptr<const Cut>)> write_cut;
  Duration checkpoint_period{};     ///< 0: only when checkpoint() is called
  std::optional<NodeOptions> node;  ///< empty: this process is the whole run
};

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
