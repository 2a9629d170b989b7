#pragma once
// Checkpoints as directories, for those who have several of one moment: the nodes of a run write one each, none removes
// any by itself, and what the whole consists of is said elsewhere (actors/control/committed_cuts.hpp).
#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include <troupe/core/error.hpp>

namespace troupe::messages {

/// CheckpointWriteOptions::keep of a writer that removes none: keep_checkpoints() does.
inline constexpr int kKeepAll = std::numeric_limits<int>::max();

/// Removes every checkpoint of `directory` whose step is not in `steps`, and what killed writers left. What cannot be
/// removed is a line in the log and stays. Blocks for the disk.
void keep_checkpoints(const std::string& directory, std::span<const std::int64_t> steps);

/// "step-000012345": the name of a checkpoint's directory.
std::string checkpoint_name(std::int64_t step);

/// Says of which bytes a checkpoint consists: the SHA-256 of its manifest, which has that of every file. It only looks
/// at the manifest. Errors: kNotFound, kIo.
Result<std::string> checkpoint_id(const std::string& directory, const std::string& name);

/// Whether every byte is what it was when it was written; reads the files piece by piece, whatever their size. Returns
/// the checkpoint's id. Errors: as open_checkpoint().
Result<std::string> verify_checkpoint(const std::string& directory, const std::string& name);

}  // namespace troupe::messages
