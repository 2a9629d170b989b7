#include <troupe/transport/detail/private_files.hpp>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <troupe/core/atomic_file.hpp>
#include <troupe/core/log.hpp>

namespace troupe::transport {
namespace {

constexpr unsigned kGroupAndWorld = 077;
constexpr unsigned kWorld = 007;

/// Whose a secret must be, and that nobody else can get at it.
Status check_private(const std::string& path, const struct stat& status, unsigned mode_expected, GroupMay group) {
  if (status.st_uid != geteuid() && status.st_uid != 0) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: belongs to user {}, expected {} or root", path, status.st_uid, geteuid())};
  }
  if ((status.st_mode & kGroupAndWorld) == 0) return {};
  const unsigned closed = status.st_mode & 07777U & ~kGroupAndWorld;
  if (group == GroupMay::kClose && (status.st_mode & kWorld) == 0 && chmod(path.c_str(), closed) == 0) {
    log::warn(
        "TRP-W716 {}: mode {:04o} had opened it to a group since it was made: closed again to {:04o}; whoever is in "
        "that group may have read it",
        path, status.st_mode & 07777U, closed);
    return {};
  }
  return Error{Code::kInvalidArgument,
               fmt::format("{}: mode {:04o} opens it to others, expected {:04o}: run chmod {:o} {}", path,
                           status.st_mode & 07777, mode_expected, mode_expected, path)};
}

}  // namespace

Status make_private_folder(const std::string& path) {
  // The mode is never wider than this, whatever the umask.
  if (mkdir(path.c_str(), 0700) == 0) return {};
  if (errno != EEXIST) return Error{Code::kIo, fmt::format("make folder {}: {}", path, std::strerror(errno))};
  struct stat status;
  if (lstat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) {
    return Error{Code::kInvalidArgument, fmt::format("{}: not a folder", path)};
  }
  return check_private(path, status, 0700, GroupMay::kClose);
}

void close_to_group(const std::string& folder) {
  struct stat status;
  if (lstat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
    (void)check_private(folder, status, 0700, GroupMay::kClose);
  }
}

Status write_private_file(const std::string& path, std::string_view text) {
  return write_file_atomic(path, text, 0600);
}

Result<std::string> read_private_file(const std::string& path, std::size_t bytes_max, GroupMay group) {
  std::error_code missing;
  const std::string real = std::filesystem::canonical(path, missing).string();
  struct stat status;
  if (missing || stat(real.c_str(), &status) != 0) {
    return Error{Code::kNotFound, fmt::format("open {}: {}", path, missing.message())};
  }
  TROUPE_TRY(check_private(path, status, 0600, group));
  TROUPE_ASSIGN(const auto bytes, read_file(real, bytes_max));
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace troupe::transport
