#pragma once
// Folders and files that hold secrets: made for their owner only, and refused when others can read them. Internal to
// transport/.
#include <string>
#include <string_view>

#include <troupe/core/error.hpp>

namespace troupe::transport {

/// Makes `path` with mode 0700; its parent must exist. A folder that is there already must be this user's and closed to
/// group and world. Errors: kInvalidArgument, kIo.
Status make_private_folder(const std::string& path);

/// Replaces a file of mode 0600, atomically and durably.
Status write_private_file(const std::string& path, std::string_view text);

/// The text of a file that only its owner (this user or root) can read. Symbolic links are followed: what they lead to
/// is checked. Errors: kNotFound, kInvalidArgument (open to group or world, or larger than bytes_max), kIo.
Result<std::string> read_private_file(const std::string& path, std::size_t bytes_max);

}  // namespace troupe::transport
