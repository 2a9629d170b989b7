#pragma once
// Between a cut of the running system (actors/protocol.hpp) and a checkpoint on disk (messages/checkpoint.hpp): which
// instance's state goes under which name. Tensors become "<instance>/<tensor>", counters "<instance>/<counter>", a
// role's chunks the section "<instance>", and frames that waited in its inlets the section "<instance>.waiting".
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <troupe/actors/topology.hpp>
#include <troupe/core/error.hpp>
#include <troupe/learner/param_buffer.hpp>
#include <troupe/messages/checkpoint.hpp>

namespace troupe::actors {

struct Cut;
struct InstanceState;

/// The contents borrow the cut's tensors. `more` are counters of the run itself.
messages::CheckpointContents to_contents(const Topology& topology, const Cut& cut, std::vector<messages::Counter> more);

/// Errors: kShapeMismatch when the checkpoint is of another topology (roles, counts or channels), kCorrupt when a frame
/// does not parse. The roles check their own state when they restore it.
Result<std::shared_ptr<const Cut>> to_cut(const Topology& topology, const messages::OpenCheckpoint& checkpoint);

// Over nodes each node writes its part of a cut, DIRECTORY/NODE/step-CUT, and the chief then records the cut in
// DIRECTORY/cut.json: only what is recorded there counts.

/// Errors: kIo.
Status commit_cut(const std::filesystem::path& directory, std::uint64_t cut, const std::vector<std::string>& nodes);
/// The newest committed cut. Errors: kNotFound, kCorrupt.
Result<std::uint64_t> committed_cut(const std::filesystem::path& directory);
/// A node's part of a cut. Errors: as of open_checkpoint().
Result<messages::OpenCheckpoint> open_part(const std::filesystem::path& directory, const std::string& node,
                                           std::uint64_t cut);
/// One instance's state in a cut, from whichever node wrote it. Null when no part that is here has it.
/// Errors: as of to_cut(); kCorrupt when a part is damaged.
Result<std::shared_ptr<const InstanceState>> load_instance(const Topology& topology,
                                                           const std::filesystem::path& directory,
                                                           const std::string& instance, std::uint64_t cut);
/// Every verified part of the newest checkpoint under `directory`: one of a run within one process, several of a run
/// over nodes. Errors: as of open_newest_checkpoint().
Result<std::vector<messages::OpenCheckpoint>> open_run_checkpoint(const std::filesystem::path& directory);

/// The flat values of one parameter group, e.g. the policy's, from the tensors of a checkpoint.
/// Errors: kNotFound or kShapeMismatch, naming the tensor.
Result<std::vector<float>> group_values(std::span<const messages::TensorBytes> tensors, const std::string& instance,
                                        const learner::ParamLayout& layout);

}  // namespace troupe::actors
