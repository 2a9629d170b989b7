#pragma once
// What a process is told of its run. One value: whoever knows a part of it (a command, run/, a test) fills that in, and
// the runtime keeps it. The chief and the node actor read it where it lies and copy nothing out of it.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <troupe/actors/control/chief_journal.hpp>
#include <troupe/actors/control/committed_cuts.hpp>
#include <troupe/actors/control/membership.hpp>
#include <troupe/actors/control/placement.hpp>
#include <troupe/actors/runtime/remote.hpp>
#include <troupe/core/clock.hpp>
#include <troupe/core/error.hpp>
#include <troupe/transport/identity.hpp>

namespace troupe::actors {

/// The state of the instances of a node at one moment. Opaque here; actors/control/run_checkpoint turns it into files
/// and back.
struct Cut;
struct InstanceState;

/// This process among the nodes of its run.
struct NodeOptions {
  Network* network = nullptr;  ///< outlives the runtime, which starts and stops it; null: this process is the whole run
  transport::Identity self{"", {}, kChiefNode};  ///< a node named kChiefNode also runs the chief
  std::uint64_t birth = 0;                       ///< random, of this process
  std::uint64_t config_hash = 0;                 ///< of the configuration; nodes of a run must agree
  messages::ControlNode address;                 ///< where other nodes reach this one
  /// How many instances a node that is not in the placement offers to host of each elastic role of its identity.
  std::int64_t elastic_instances = 1;
  std::string host;                 ///< nodes with the same one share memory; empty: with nobody
  std::filesystem::path directory;  ///< instances' own durable folders are made in it; empty: they have none
  /// A node that has heard no chief for so long ends with an error: it must not run on for ever, unseen.
  Duration orphaned_after = std::chrono::seconds(60);
  /// A step that takes longer hangs; `on_hang` should end the process, which its starter replaces. 0: nobody watches.
  Duration step_timeout{};
  std::function<void(const std::string& instance)> on_hang;
  /// An instance failed with Code::kLost, for the reason `why`, and the chief has been told; this should end the
  /// process as on_hang does. Empty: the node ends with that error. Not for the chief's node: there the run ends, or
  /// goes on without the instance if its role has others (RestartPolicy::quarantine).
  std::function<void(const std::string& why)> on_lost;
  CutParts parts;  ///< what is done with this node's parts of cuts once write_cut has written them
  /// The state of an instance in the committed cut of this number, which has it; called on the instance's thread. Null:
  /// the instance starts afresh all the same. Empty: there is nothing to restore from.
  std::function<Result<std::shared_ptr<const InstanceState>>(const std::string& instance, std::uint64_t number)> load;
};

/// What only the node that leads the run is told.
struct ChiefOptions {
  std::vector<PlacedNode> placement;  ///< every instance of the topology exactly once
  JournalStore journal;
  /// All instances start from the first of these that the nodes have whole, too; of whole_cuts(). Empty: afresh.
  std::vector<CommittedCut> resume_from;
  CommittedCut committed;  ///< of a run that goes on: the newest one; what the journal says of it may be older
  /// Called when a cut is on every node's disk. Its error fails the cut. Empty: nothing more is to be done.
  std::function<Status(const CommittedCut& cut)> commit;
  /// Numbers of the cuts whose parts must stay: kept_cuts(). Empty: those of the newest alone.
  std::function<std::vector<std::uint64_t>()> kept;
  /// Called with the cut that the run goes on from: newer ones count no more. Its error ends the run.
  std::function<Status(std::uint64_t number)> resumed_from;
};

struct RuntimeOptions {
  std::uint64_t seed = 0;
  bool deterministic = false;           ///< one thread, virtual time; nodes go in step (control/lockstep.hpp)
  std::filesystem::path run_directory;  ///< RoleIdentity::run_directory
  Duration report_period = std::chrono::seconds(1);
  /// How long instances may take to pause and save; then the cut fails naming who did not answer.
  Duration cut_deadline = std::chrono::seconds(30);
  Duration checkpoint_period{};  ///< 0: only when checkpoint() is called
  MembershipOptions membership;  ///< on a node that is not the chief's: until the chief says otherwise
  /// Writes this node's part of a checkpoint, on a thread of its own; may block for the disk. Empty: there are none.
  std::function<Status(std::shared_ptr<const Cut>)> write_cut;
  /// Null: a fresh run. Only when this process is the whole run, which needs no placement and cuts of ChiefOptions.
  std::shared_ptr<const Cut> resume_from;
  /// Gets the run as Runtime::status() has it, each status_period (0: never), on the thread of run() and on the chief's
  /// node only. A deterministic run is not asked anything, since who is asked takes turns: it tells once what its
  /// topology is, and so does one that ends before its chief has answered.
  std::function<void(std::string)> tell_status;
  Duration status_period{};
  NodeOptions node;
  ChiefOptions chief;
};

/// A disk that needs longer for one checkpoint has failed for all purposes.
inline constexpr Duration kWriteDeadline = std::chrono::minutes(10);

}  // namespace troupe::actors
