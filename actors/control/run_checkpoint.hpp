#pragma once
// Between a cut of the running system (actors/runtime/protocol.hpp) and a checkpoint on disk (messages/checkpoint.hpp):
// which instance's state goes under which name. Tensors become "<instance>/<tensor>", counters "<instance>/<counter>",
// a role's chunks the section "<instance>", and frames that waited in its inlets the section "<instance>.waiting".
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <troupe/actors/control/committed_cuts.hpp>
#include <troupe/actors/runtime/topology.hpp>
#include <troupe/core/error.hpp>
#include <troupe/messages/checkpoint.hpp>

namespace troupe::actors {

struct Cut;
struct InstanceState;

/// The contents borrow the cut's tensors. `more` are counters of the run itself.
messages::CheckpointContents to_contents(const Topology& topology, const Cut& cut, std::vector<messages::Counter> more);

/// With the instances that the checkpoint has. Errors: kShapeMismatch when it is of another topology (roles, counts or
/// channels), kCorrupt when a frame does not parse. The roles check their own state when they restore it.
Result<std::shared_ptr<const Cut>> to_cut(const Topology& topology, const messages::OpenCheckpoint& checkpoint);

/// One instance's state in a committed cut of a run over nodes, from whichever node's part on this host has it. Never
/// null. Errors: kNotFound (no part that is here holds it), kCorrupt (that part is damaged); those of to_cut().
Result<std::shared_ptr<const InstanceState>> load_instance(const Topology& topology,
                                                           const std::filesystem::path& directory,
                                                           const std::string& instance, std::uint64_t cut);
/// The parts of a cut, each verified, without those on other hosts.
/// Errors: those of open_part(), and kNotFound: none is on this host.
Result<std::vector<messages::OpenCheckpoint>> open_parts(const std::filesystem::path& directory,
                                                         const CommittedCut& cut);
/// Every verified part of the newest whole checkpoint under `directory`: one of a run within one process, several of a
/// run over nodes, without those on other hosts. A newer one that is damaged is a warning in the log.
/// Errors: as of open_newest_checkpoint() and whole_cuts().
Result<std::vector<messages::OpenCheckpoint>> open_run_checkpoint(const std::filesystem::path& directory);

}  // namespace troupe::actors
