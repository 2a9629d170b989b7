#pragma once
// Checkpoints on disk: directories `step-000012345` that appear whole or not at all. The checkpointer actor writes them
// from what the roles hand in at one cut; a resumed run reads the newest one that verifies.
//
//   step-000012345/
//     tensors.safetensors   parameters and optimiser slots
//     ROLE.chunks           a role's opaque state (replay, env actors, ...), chunk by chunk
//     counters.chunks       named integers: env steps, learner steps, random states
//     manifest.json         written last: format, run id, step, and every file's size and SHA-256
//
// Commit: files are written and fsynced in a hidden temporary directory, the directory is fsynced, renamed, and its
// parent fsynced. A rename alone does not do: after a power cut ext4 gave the right size filled with zeros.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/messages/safetensors.hpp>

namespace troupe::messages {

/// A named integer that belongs to the cut. Bit patterns (random states) are stored as they are.
struct Counter {
  std::string name;
  std::int64_t value = 0;
  friend bool operator==(const Counter&, const Counter&) = default;
};

/// Longest chunk, in bytes.
inline constexpr std::size_t kMaxChunkBytes = std::size_t{256} << 20;

/// The state of one role, in its own format, cut into chunks as it likes.
struct RoleChunks {
  std::string role;  ///< letters, digits, '.', '_', '-'; at most 100, not "counters"; names a file
  std::vector<std::vector<std::byte>> chunks;
  friend bool operator==(const RoleChunks&, const RoleChunks&) = default;
};

/// What one checkpoint holds. The tensors borrow their bytes until write_checkpoint() returns.
struct CheckpointContents {
  std::string run_id;
  std::int64_t learner_step = 0;
  std::vector<TensorBytes> tensors;  ///< e.g. "critic/parameters", "critic/adam_m"
  std::vector<RoleChunks> roles;
  std::vector<Counter> counters;
};

struct CheckpointWriteOptions {
  std::string directory;  ///< made when it does not exist; one process at a time writes here
  int keep = 2;           ///< newest checkpoints that stay, >= 2; older ones go only after the commit
  /// Names (step-...) that a reader rejected: they neither count as kept nor are removed, so that a damaged checkpoint
  /// never pushes out a good one and stays for inspection.
  std::vector<std::string> damaged;
};

/// Writes and commits; blocks for the disk, so call it off the actors' threads. Replaces a checkpoint of the same step
/// atomically. Returns the checkpoint's path. Temporary directories that a killed writer left are removed.
/// Errors: kInvalidArgument (names, keep, sizes), kIo (what failed, and the free space when the disk is full): the
/// earlier checkpoints are untouched. Only when the very last fsync fails may the new one be there already.
Result<std::string> write_checkpoint(const CheckpointWriteOptions& options, const CheckpointContents& contents);

/// A checkpoint that was not used, and why: "step-000000200: replay.chunks: SHA-256 is 12ab.., manifest says 34cd..".
struct RejectedCheckpoint {
  std::string name;
  std::string reason;
};

/// A checkpoint whose every byte has been verified. Owns its memory: `tensors` point into it, so it moves but does not
/// copy.
struct OpenCheckpoint {
  OpenCheckpoint() = default;
  OpenCheckpoint(OpenCheckpoint&&) = default;
  OpenCheckpoint& operator=(OpenCheckpoint&&) = default;

  std::string path;
  std::string run_id;
  std::int64_t learner_step = 0;
  std::vector<TensorBytes> tensors;
  std::vector<RoleChunks> roles;
  std::vector<Counter> counters;
  std::vector<RejectedCheckpoint> rejected;  ///< newer ones that failed their checks, newest first
  std::vector<std::string> unknown;          ///< entries of the directory that are no checkpoints; left alone

  const TensorBytes* find_tensor(std::string_view name) const;                        ///< null: not there
  const std::vector<std::vector<std::byte>>* find_role(std::string_view role) const;  ///< null: not there
  Result<std::int64_t> counter(std::string_view name) const;                          ///< kNotFound

 private:
  friend Result<OpenCheckpoint> open_checkpoint(const std::string&, const std::string&);
  std::vector<std::byte> tensor_file_;  // moving a vector keeps its storage, so the views stay valid
};

/// Verifies one checkpoint completely (names, sizes, SHA-256, every chunk's CRC32C) and reads it into memory.
/// Errors: kNotFound; kCorrupt naming file and difference; kIo.
Result<OpenCheckpoint> open_checkpoint(const std::string& directory, const std::string& name);

/// The newest checkpoint that verifies. Errors: kNotFound when there is none, kCorrupt when none is usable, listing
/// each.
Result<OpenCheckpoint> open_newest_checkpoint(const std::string& directory);

}  // namespace troupe::messages
