#include <troupe/data/detail/file.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace troupe::data::detail {
namespace {

Error failed(const std::filesystem::path& path, const char* call) {
  return Error{errno == ENOENT ? Code::kNotFound : Code::kIo,
               fmt::format("{}: {}: {}", path.string(), call, std::strerror(errno))};
}

}  // namespace

Result<File> File::open(const std::filesystem::path& path) {
  const int fd =
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe without a writer must not hold us up
  if (fd < 0) return failed(path, "open");
  File file(path, fd, 0);
  struct stat status {};
  if (fstat(fd, &status) != 0) return failed(path, "fstat");
  if (!S_ISREG(status.st_mode)) {
    return Error{Code::kInvalidArgument, fmt::format("{}: {}, expected a file", path.string(),
                                                     S_ISDIR(status.st_mode) ? "a directory" : "no regular file")};
  }
  file.bytes_ = static_cast<std::uint64_t>(status.st_size);
  return file;
}

File::File(File&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), bytes_(other.bytes_) {}

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

Status File::read_at(std::uint64_t offset, std::span<std::uint8_t> out) const {
  while (!out.empty()) {
    const ssize_t got = ::pread(fd_, out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed(path_, "read");
    if (got == 0) {
      return Error{Code::kCorrupt,
                   fmt::format("{}: ends at byte {}, {} more were expected", path_.string(), offset, out.size())};
    }
    offset += static_cast<std::uint64_t>(got);
    out = out.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

}  // namespace troupe::data::detail
