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

/// Makes a cut of the instances that the checkpoint has. Errors: kShapeMismatch when it is of another topology (roles,
/// counts or channels), kCorrupt when a frame does not parse. The roles check their own state when they restore it.
Result<std::shared_ptr<const Cut>> to_cut(const Topology& topology, const messages::OpenCheckpoint& checkpoint);

/// Reads one instance's state of a committed cut of a run over nodes, out of the part on this host that has it. The
/// result is never null. Errors: kNotFound (no part on this host holds it), kCorrupt (that part is damaged); those of
/// to_cut().
Result<std::shared_ptr<const InstanceState>> load_instance(const Topology& topology,
                                                           const std::filesystem::path& directory,
                                                           const std::string& instance, std::uint64_t cut);
/// Opens and verifies the parts of a cut that are on this host.
/// Errors: those of open_part(), and kNotFound: none is on this host.
Result<std::vector<messages::OpenCheckpoint>> open_parts(const std::filesystem::path& directory,
                                                         const CommittedCut& cut);
/// Opens and verifies the parts of the newest whole checkpoint under `directory` that are on this host: one part of a
/// run within one process, several of a run over nodes. A newer checkpoint that is damaged is a warning in the log.
/// Errors: as of open_newest_checkpoint() and whole_cuts().
Result<std::vector<messages::OpenCheckpoint>> open_run_checkpoint(const std::filesystem::path& directory);

}  // namespace troupe::actors
