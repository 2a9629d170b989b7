#pragma once
// What `troupe status` shows: the run as the chief sees it, and what every instance says about itself, as JSON. Made
// here, by the nodes and the chief; read by apps/commands and by people's scripts, so names only ever get added:
//   {"run", "term", "seconds",
//    "nodes": [{"name", "state", "incarnation", "address", "silent_s"}],
//    "instances": [{"name", "role", "node", "state", "incarnation", "restarts", "restart_limit", "error",
//                   "idle_s", "waits_for", "since_s", "why", "version", "ports": [{"name", "direction", "depth",
//                   "frames", "bytes", "frames_per_s", "bytes_per_s", "waited_s"}]}],
//    "waits": ["learner-0 waits 3.1 s on batches: replay's limiter needs 812 more inserts; actor-2 is restarting (2 of
//              5)", ...],
//    "versions": {"learner": 1200, "actor-0": 1197}, "staleness": {"learner": 0, "actor-0": 3}, "last_cut": 7}
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <troupe/actors/protocol.hpp>
#include <troupe/actors/topology.hpp>

namespace troupe::actors {

/// A node's answer to kAskStatus.
std::string to_json(const std::vector<InstanceStatus>& statuses);
/// Errors: kCorrupt when the text is no such answer.
Result<std::vector<InstanceStatus>> statuses_from_json(const std::string& text);

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
  std::string run;
  std::uint64_t term = 0;
  double wall_s = 0;  ///< since this chief began
  std::uint64_t last_cut = 0;
  double between_s = 0;  ///< from `before` to `own`
  std::vector<Node> nodes;
  std::vector<Instance> instances;
};

/// One line for each instance that waits: for what, since when, and why those whom it waits for, and whom those wait
/// for, do not deliver.
std::vector<std::string> waits(const Topology& topology, const RunStatus& status);

std::string to_json(const Topology& topology, const RunStatus& status);

}  // namespace troupe::actors
