#pragma once
// manifest.json of a checkpoint: what must be there, and how to know that it is. Internal to messages/checkpoint.cpp.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/core/error.hpp>

namespace troupe::messages {

struct ManifestFile {
  std::string name;  ///< in the checkpoint's own directory; see check_file_name()
  std::uint64_t bytes = 0;
  std::string sha256;  ///< hexadecimal
};

struct Manifest {
  std::string run_id;
  std::int64_t learner_step = 0;
  std::vector<ManifestFile> files;
};

/// Larger manifests are refused unread: ours have a few hundred bytes a file.
inline constexpr std::size_t kMaxManifestBytes = std::size_t{1} << 20;

/// Letters, digits, '.', '_', '-', not starting with '.', at most 120: such a name cannot leave its directory.
/// `what` starts the message. Errors: kInvalidArgument.
Status check_file_name(std::string_view name, std::string_view what);

/// JSON with two spaces of indent, the manifest's own SHA-256 beside it.
std::string encode_manifest(const Manifest& manifest);
/// Accepts only what encode_manifest() would write, byte for byte, so that no flipped byte goes unseen.
/// Errors: kCorrupt saying what differs.
Result<Manifest> parse_manifest(std::span<const std::byte> bytes);

}  // namespace troupe::messages
