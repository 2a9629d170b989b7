#pragma once
// Names of directories and files of checkpoints, which the writer gives and the reader finds. Internal.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::messages {

inline constexpr const char* kManifestFile = "manifest.json";
inline constexpr const char* kTensorsFile = "tensors.safetensors";
inline constexpr const char* kChunksSuffix = ".chunks";
inline constexpr const char* kCountersRole = "counters";
inline constexpr const char* kTemporaryPrefix = ".unfinished-";
inline constexpr std::size_t kMaxRoleBytes = 100;

/// "step-000012345".
std::string step_name(std::int64_t step);
/// The step of such a name; nothing for every other name.
std::optional<std::int64_t> parse_step_name(std::string_view name);

struct CheckpointListing {
  std::vector<std::int64_t> steps;   ///< newest first
  std::vector<std::string> unknown;  ///< other entries, sorted
};
/// Empty when the directory cannot be read or is not there.
CheckpointListing list_checkpoints(const std::string& directory);

}  // namespace troupe::messages
