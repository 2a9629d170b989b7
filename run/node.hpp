#pragma once
// A training run over nodes: what one process needs to take its place in it, and the call that runs a node which is not
// the chief's. The chief's process calls train() with the same place. What differs from a run in one process is here
// and nowhere else: the network, where an instance keeps its own files, and checkpoints in parts.
//
//   RUN/chief.json                     the chief's journal
//   RUN/chief.address                  where it listens; its next process listens there again
//   RUN/nodes/NODE/                    a node's credentials, and the folders of its instances
//   RUN/checkpoints/NODE/step-CUT/     a node's part of the cut
//   RUN/checkpoints/cut.json           the newest cut that all nodes have on disk: actors/control/committed_cuts
//
// Nodes on hosts without a common disk keep their own parts under the same names.
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/actors/control/runtime_options.hpp>
#include <troupe/actors/network/node_network.hpp>
#include <troupe/actors/runtime/topology.hpp>
#include <troupe/core/error.hpp>
#include <troupe/core/metrics.hpp>
#include <troupe/messages/checkpoint.hpp>
#include <troupe/run/run_topology.hpp>
#include <troupe/run/train_options.hpp>
#include <troupe/transport/address.hpp>

namespace troupe::actors {

/// Exit codes of a process that has ended itself, so that another one takes its place.
inline constexpr int kExitHang = 70;  ///< a step does not end (TRP-E150)
inline constexpr int kExitLost = 71;  ///< a device is lost to the process (TRP-E152)

/// Where this process stands in a run. Made by apps/ from a cluster file, the environment or a token.
struct NodePlace {
  std::filesystem::path run_dir;
  /// Its `self` is as its certificate says. On the chief `listen` with port 0 is the port in RUN/chief.address, or any
  /// free one, and `chief` is empty. make_network() adds the topology.
  NodeNetworkOptions network;
  std::string advertised_host;  ///< how others reach this node; empty: network.listen.host
  /// On the chief of a run that begins again, all of whose nodes wait for its address: where it listened before, and
  /// listens again if nobody else has taken the port.
  std::optional<transport::Address> earlier;
  /// On the chief: called once it listens, with how others reach it. May be empty.
  std::function<void(const transport::Address&)> on_listening;
  bool resume = false;  ///< the chief, once: all instances start from the newest cut
  /// What is known by now for the actors: the hash of what all nodes must have in common, how many elastic instances
  /// are offered, and on the chief the placement. node_runtime() adds the rest.
  RuntimeOptions runtime;
};

/// Takes part in the run until the chief ends it, `stop` is set (the node leaves in good order) or the node is fenced.
/// Errors: kCancelled when it was fenced (exit code 75); those of the network, the topology and the chief's refusal.
Status run_node(const TrainOptions& options, const NodePlace& place, const std::atomic<bool>* stop);

/// The chief's address as it wrote it. Waits for it, at most `timeout`. Errors: kDeadlineExceeded.
Result<transport::Address> wait_for_chief(const std::filesystem::path& run_dir, Duration timeout);

// What train() and run_node() have in common: the topology with restarts for all roles, a listening network for
// the place, and what the runtime must know about it. `topology` and the network outlive the runtime.

Result<Topology> node_topology(const TrainOptions& options, RunSinks sinks, double wall_s);
Result<std::unique_ptr<NodeNetwork>> make_network(const NodePlace& place, const Topology& topology);
/// The cuts that the chief's process finds.
struct EarlierCuts {
  std::vector<CommittedCut> resume_from;  ///< place.resume: ChiefOptions::resume_from
  CommittedCut newest;                    ///< number 0: none
};
/// Errors: as whole_cuts(), when the run is to resume; kCorrupt: the journal is not beside them.
Result<EarlierCuts> earlier_cuts(const NodePlace& place);
/// `earlier`: on the chief. `more`: counters to be written with this node's part of every cut.
Result<RuntimeOptions> node_runtime(const NodePlace& place, const TrainOptions& options, const Topology& topology,
                                    NodeNetwork& network, EarlierCuts earlier,
                                    std::function<std::vector<messages::Counter>()> more);

}  // namespace troupe::actors
