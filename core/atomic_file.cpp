#include <troupe/core/atomic_file.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <utility>

namespace troupe {
namespace {

std::string parent_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

/// "write /a/b: No space left on device (3 MiB free)". `error` is errno.
Error io_error(std::string_view what, const std::string& path, int error) {
  std::string message = fmt::format("{} {}: {}", what, path, std::strerror(error));
  struct statvfs disk;
  if ((error == ENOSPC || error == EDQUOT) && statvfs(parent_of(path).c_str(), &disk) == 0) {
    message += fmt::format(" ({} KiB free)", disk.f_bavail * disk.f_frsize / 1024);
  }
  return Error{Code::kIo, std::move(message)};
}

/// A descriptor that closes itself; for reading, where a failing close() loses nothing.
struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
};

/// A temporary file of a killed process is this old at least; whoever has just closed one renames it at once.
constexpr std::time_t kLeftoverSeconds = 2;

/// Removes the temporary files of `path` whose writers were killed: a living one holds the lock of its file.
void remove_leftovers(const std::string& path) {
  const std::string prefix = std::filesystem::path(path).filename().string() + ".tmp-";
  std::error_code error;
  std::filesystem::directory_iterator found(parent_of(path), error);
  for (; !error && found != std::filesystem::directory_iterator(); found.increment(error)) {
    const std::filesystem::path entry = found->path();
    const std::string name = entry.filename().string();
    if (!name.starts_with(prefix) || name.find_first_not_of("0123456789", prefix.size()) != std::string::npos) continue;
    const Descriptor file{open(entry.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)};
    struct stat status;
    if (file.fd < 0 || fstat(file.fd, &status) != 0 || !S_ISREG(status.st_mode)) continue;
    if (std::time(nullptr) - status.st_mtime < kLeftoverSeconds || flock(file.fd, LOCK_EX | LOCK_NB) != 0) continue;
    std::remove(entry.c_str());
  }
}

}  // namespace

Result<FileWriter> FileWriter::create(const std::string& path, unsigned mode) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
  if (fd < 0 && errno == EEXIST) return Error{Code::kAlreadyExists, fmt::format("create {}: exists already", path)};
  if (fd < 0) return io_error("create", path, errno);
  flock(fd, LOCK_EX | LOCK_NB);  // says that its writer lives, where the file system has locks
  return FileWriter(path, fd);
}

FileWriter::FileWriter(FileWriter&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      bytes_(other.bytes_),
      hash_(std::move(other.hash_)) {}

FileWriter::~FileWriter() {
  if (fd_ >= 0) close(fd_);
}

Status FileWriter::append(std::span<const std::byte> bytes) {
  hash_.update(bytes);
  bytes_ += bytes.size();
  while (!bytes.empty()) {
    const ssize_t written = write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return io_error("write", path_, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

Result<FileWriter::Written> FileWriter::finish() {
  if (fsync(fd_) != 0) return io_error("fsync", path_, errno);
  if (close(std::exchange(fd_, -1)) != 0) return io_error("close", path_, errno);
  return Written{bytes_, to_hex(hash_.finish())};
}

Status fsync_directory(const std::string& path) {
  const Descriptor directory{open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (directory.fd < 0) return io_error("open directory", path, errno);
  if (fsync(directory.fd) != 0) return io_error("fsync directory", path, errno);
  return {};
}

namespace {

/// Writes a temporary file, does with it what `settle` says, and gives it the name. On error it goes.
template <typename Settle>
Status rename_into_place(const std::string& path, std::span<const std::byte> bytes, unsigned mode, Settle settle) {
  const std::string temporary = fmt::format("{}.tmp-{}", path, getpid());
  std::remove(temporary.c_str());  // left by a killed process that had the same id
  remove_leftovers(path);
  const auto write_all = [&]() -> Status {
    TROUPE_ASSIGN(FileWriter writer, FileWriter::create(temporary, mode));
    TROUPE_TRY(writer.append(bytes));
    TROUPE_TRY(settle(writer));
    if (std::rename(temporary.c_str(), path.c_str()) != 0) return io_error("rename to", path, errno);
    return {};
  };
  const Status written = write_all();
  if (!written.ok()) std::remove(temporary.c_str());
  return written;
}

}  // namespace

Status write_file_atomic(const std::string& path, std::span<const std::byte> bytes, unsigned mode) {
  TROUPE_TRY(rename_into_place(path, bytes, mode, [](FileWriter& writer) -> Status {
    TROUPE_TRY(writer.finish());
    return {};
  }));
  return fsync_directory(parent_of(path));
}

Status write_file_atomic(const std::string& path, std::string_view text, unsigned mode) {
  return write_file_atomic(path, std::as_bytes(std::span(text)), mode);
}

Status replace_file(const std::string& path, std::string_view text) {
  return rename_into_place(path, std::as_bytes(std::span(text)), 0644, [](FileWriter&) { return Status(); });
}

Result<std::vector<std::byte>> read_file(const std::string& path, std::uint64_t max_bytes) {
  // Non-blocking, so that a FIFO somebody put there cannot hold the open for ever; it has no effect on regular files.
  const Descriptor file{open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)};
  if (file.fd < 0 && errno == ENOENT) return Error{Code::kNotFound, fmt::format("open {}: no such file", path)};
  if (file.fd < 0 && errno == ELOOP) {
    return Error{Code::kInvalidArgument, fmt::format("open {}: is a symbolic link, expected a regular file", path)};
  }
  if (file.fd < 0) return io_error("open", path, errno);
  struct stat status;
  if (fstat(file.fd, &status) != 0) return io_error("stat", path, errno);
  if (!S_ISREG(status.st_mode)) {
    return Error{Code::kInvalidArgument, fmt::format("open {}: not a regular file", path)};
  }
  if (static_cast<std::uint64_t>(status.st_size) > max_bytes) {
    return Error{Code::kInvalidArgument,
                 fmt::format("read {}: got {} bytes, expected at most {}", path, status.st_size, max_bytes)};
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(status.st_size));
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = read(file.fd, bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return io_error("read", path, errno);
    if (got == 0) break;  // shrunk meanwhile: the caller's checks see the shorter content
    done += static_cast<std::size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

}  // namespace troupe
