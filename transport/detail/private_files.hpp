#pragma once
// Folders and files that hold secrets: made for their owner only, and refused when others can read them. Internal to
// transport/.
#include <string>
#include <string_view>

#include <troupe/core/error.hpp>

namespace troupe::transport {

/// Makes `path` with mode 0700; its parent must exist. A folder that is there already must be this user's and closed to
/// the world; one that is open to the group is closed to it (GroupMay::kClose). Errors: kInvalidArgument, kIo.
Status make_private_folder(const std::string& path);
/// As the last part of make_private_folder(), as far as that can be done, for a folder whose files are to be read.
void close_to_group(const std::string& folder);

/// Replaces a file of mode 0600, atomically and durably.
Status write_private_file(const std::string& path, std::string_view text);

/// What becomes of a secret that its group can read.
enum class GroupMay {
  kRefuse,
  /// For what this program has written itself with mode 0600: somebody has opened all of the run to a group since, as
  /// Kubernetes does at each start with the volumes of an fsGroup. It is closed again, and a warning says so.
  kClose,
};

/// The text of a file that only its owner (this user or root) can read. Symbolic links are followed: what they lead to
/// is checked. Errors: kNotFound, kInvalidArgument (open to group or world, or larger than bytes_max), kIo.
Result<std::string> read_private_file(const std::string& path, std::size_t bytes_max, GroupMay group);

}  // namespace troupe::transport
