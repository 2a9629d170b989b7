#pragma once
// What `troupe status` shows: the run as the chief sees it, and what every instance says about itself, as JSON. Made
// here, by the nodes and the chief; read by apps/commands and by people's scripts, so names only ever get added:
//   {"run", "term", "seconds",
//    "nodes": [{"name", "state", "incarnation", "address", "silent_s"}],
//    "instances": [{"name", "role", "node", "state", "incarnation", "restarts", "restart_limit", "error",
//                   "idle_s", "waits_for", "since_s", "why", "version", "ports": [{"name", "direction", "depth",
//                   "frames", "bytes", "frames_per_s", "bytes_per_s", "waited_s"}]}],
//    "groups": [{"name", "epoch", "seats", "members": ["gan-0", ...], "missing": [{"name", "state"}], "hang": "gan-0
//                waits 7.1 s for all_reduce(critic) of step 412; gan-1 is in input_fn of step 412 for 7.1 s", "broke":
//                why the last epoch that failed did}],
//    "channels": [{"from", "from_port", "to", "to_port", "kind": "stream", "latest" or "request", "capacity"}]: what the
//                topology connects, role by role,
//    "messages": [{"name", "opaque", "max_bytes"}]: the user's own types; of an opaque one nobody but its taker knows
//                what it holds,
//    "waits": ["learner-0 waits 3.1 s on batches: replay's limiter needs 812 more inserts; actor-2 is restarting (2 of
//              5)", ...],
//    "versions": {"learner": 1200, "actor-0": 1197}, "staleness": {"learner": 0, "actor-0": 3}, "last_cut": 7,
//    "trouble": ["TRP-E503 the chief's journal cannot be written: ..."]}
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <troupe/actors/runtime/protocol.hpp>
#include <troupe/actors/runtime/topology.hpp>
#include <troupe/collectives/activity.hpp>

namespace troupe::actors {

/// Lines of one node about what makes it slower.
inline constexpr std::size_t kTroublesMax = 16;

/// A node's answer to kAskStatus.
std::string to_json(const std::vector<InstanceStatus>& statuses);
/// Errors: kCorrupt when the text is no such answer.
Result<std::vector<InstanceStatus>> statuses_from_json(const std::string& text);

/// Says what a member of a group does in the middle of a step: it waits in a collective, or others wait for it.
void set_activity(InstanceStatus& status, const collectives::Activity::Now& now);

/// The run as the chief sees it.
struct RunStatus {
  struct Node {
    std::string name;
    std::string state;  ///< "expected", "up", "dead", "left"
    std::uint32_t incarnation = 0;
    std::string address;
    double silent_s = 0;
  };
  struct Instance {
    std::string name, role, node;
    std::string state;  ///< "waiting for its node", "starting", "up", "restarting", "quarantined", "done"
    std::uint32_t incarnation = 0;
    int restarts = 0;
    int restart_limit = 0;
    std::string error;  ///< of the last failure
    std::optional<InstanceStatus> own;
    std::optional<InstanceStatus> before;  ///< a while ago, for rates
  };
  struct Group {
    std::string role;
    std::string epoch;                 ///< "2.7": the seventh of the second chief; empty: there was none yet
    std::vector<std::string> members;  ///< of the newest epoch, by rank
    std::string broke;                 ///< why the last epoch that failed did
  };
  std::string run;
  std::uint64_t term = 0;
  double wall_s = 0;  ///< since this chief began
  std::uint64_t last_cut = 0;
  double between_s = 0;  ///< from `before` to `own`
  std::vector<Node> nodes;
  std::vector<Instance> instances;
  std::vector<Group> groups;
  std::vector<std::string> trouble;  ///< what keeps the chief from its work, or makes the run slower than it could be
};

/// Says who of a group waits in a collective for longer than a moment, and what the others do; empty when nobody waits.
std::string hang(const RunStatus& status, const RunStatus::Group& group);

/// Gives a line for each instance that waits: what it waits for and since when, and why those on whom it waits, and
/// those on whom they wait in turn, do not deliver.
std::vector<std::string> waits(const Topology& topology, const RunStatus& status);

std::string to_json(const Topology& topology, const RunStatus& status);

}  // namespace troupe::actors
