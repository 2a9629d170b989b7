#pragma once
// Names of directories and files of checkpoints, which the writer gives and the reader finds. Internal.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/messages/checkpoint_files.hpp>

namespace troupe::messages {

inline constexpr const char* kManifestFile = "manifest.json";
inline constexpr const char* kTensorsFile = "tensors.safetensors";
inline constexpr const char* kChunksSuffix = ".chunks";
inline constexpr const char* kCountersRole = "counters";
inline constexpr const char* kTemporaryPrefix = ".unfinished-";
/// Of a checkpoint that is being replaced by one of the same step, where the two cannot be exchanged at once: it counts
/// while the other has not got its name.
inline constexpr const char* kReplacedPrefix = ".replaced-";
inline constexpr std::size_t kMaxRoleBytes = 100;

/// The step of a name as of checkpoint_name(); nothing for every other name.
std::optional<std::int64_t> parse_step_name(std::string_view name);

struct CheckpointListing {
  std::vector<std::int64_t> steps;   ///< newest first
  std::vector<std::string> unknown;  ///< other entries, sorted
};
/// Empty when the directory cannot be read or is not there.
CheckpointListing list_checkpoints(const std::string& directory);

}  // namespace troupe::messages
