#include <troupe/run/output.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include <troupe/core/atomic_file.hpp>
#include <troupe/core/clock.hpp>
#include <troupe/core/text.hpp>
#include <troupe/run/run_directory.hpp>
#include <troupe/run/say.hpp>

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;

constexpr int kLinksMax = 40;  // as many as the kernel follows
/// For a reader of a FIFO to come, and to read on.
constexpr Duration kReaderPatience = std::chrono::seconds(30);

std::string shown_path(const std::string& path) { return printable(path, PATH_MAX); }

/// The descriptor that "/dev/stdout" and the like stand for. To open such a name would begin the file anew.
std::optional<int> named_descriptor(std::string_view path) {
  if (path == "-" || path == "/dev/stdout") return STDOUT_FILENO;
  if (path == "/dev/stderr") return STDERR_FILENO;
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"}) {
    if (!path.starts_with(folder)) continue;
    const std::string_view number = path.substr(folder.size());
    const bool digits = !number.empty() && number.size() <= 6 &&
                        std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; });
    if (digits) return std::stoi(std::string(number));
  }
  return {};
}

/// What a chain of symbolic links ends in, which need not be there.
fs::path followed(fs::path path) {
  std::error_code error;
  for (int i = 0; i < kLinksMax && fs::is_symlink(path, error); ++i) {
    const fs::path next = fs::read_symlink(path, error);
    if (error) break;
    path = path.parent_path() / next;
  }
  return path;
}

bool is_same_file(const struct stat& one, const fs::path& other) {
  struct stat status;
  return stat(other.c_str(), &status) == 0 && status.st_dev == one.st_dev && status.st_ino == one.st_ino;
}

struct Descriptor {
  explicit Descriptor(int opened) : fd(opened) {}
  Descriptor(Descriptor&& other) noexcept : fd(std::exchange(other.fd, -1)) {}
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
  int fd;
};

Error write_failed(const std::string& path) {
  return {Code::kIo, fmt::format("write {}: {}", shown_path(path), std::strerror(errno))};
}

/// Opens a device or FIFO; of the latter it waits for a reader.
Result<int> open_through(const std::string& path) {
  const SteadyClock clock;
  const Duration end = clock.now() + kReaderPatience;
  for (;;) {
    const int fd = open(path.c_str(), O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0) return fd;
    if (errno != ENXIO && errno != EINTR) return write_failed(path);
    if (clock.now() >= end) {
      return Error{Code::kDeadlineExceeded,
                   fmt::format("write {}: nobody reads it for {:g} s", shown_path(path), seconds(kReaderPatience))};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

/// `path` names the file in errors.
Status write_through(Descriptor file, const std::string& path, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(file.fd, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(written));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return write_failed(path);
    pollfd ready{file.fd, POLLOUT, 0};
    if (poll(&ready, 1, static_cast<int>(seconds(kReaderPatience) * 1000)) == 0) {
      return Error{Code::kDeadlineExceeded,
                   fmt::format("write {}: nobody reads on for {:g} s", shown_path(path), seconds(kReaderPatience))};
    }
  }
  return close(std::exchange(file.fd, -1)) == 0 ? Status() : write_failed(path);
}

}  // namespace

Result<Output> Output::at(const std::string& path, OutputOptions options) {
  const auto refuse = [&](Code code, std::string_view why) {
    return Error{code, fmt::format("{} {}: {}", options.option, shown_path(path), why)};
  };
  if (path.empty())
    return Error{Code::kInvalidArgument, fmt::format("{}: expected the name of a file", options.option)};
  Output output;
  output.name_ = path;
  output.option_ = options.option;
  output.mode_ = options.secret ? 0600 : 0644;
  if (const auto descriptor = named_descriptor(path)) {
    output.kind_ = *descriptor == STDOUT_FILENO ? Kind::kStandardOutput : Kind::kThrough;
    output.descriptor_ = *descriptor;
    if (fcntl(*descriptor, F_GETFD) < 0) return refuse(Code::kIo, std::strerror(errno));
    return output;
  }
  output.target_ = followed(path);
  struct stat status;
  if (stat(output.target_.c_str(), &status) != 0) {
    if (errno != ENOENT) return refuse(Code::kIo, std::strerror(errno));
    if (!output.target_.has_filename()) return refuse(Code::kInvalidArgument, "expected a file, not a directory");
    const fs::path folder = output.target_.has_parent_path() ? output.target_.parent_path() : ".";
    if (stat(folder.c_str(), &status) != 0) {
      return refuse(Code::kNotFound, fmt::format("there is no folder {}", shown_path(folder.string())));
    }
    if (access(folder.c_str(), W_OK) != 0) return refuse(Code::kIo, std::strerror(errno));
  } else {
    if (S_ISDIR(status.st_mode)) return refuse(Code::kInvalidArgument, "is a directory, expected a file");
    if (access(output.target_.c_str(), W_OK) != 0) return refuse(Code::kIo, std::strerror(errno));
    for (const fs::path& input : options.inputs) {
      if (is_same_file(status, input)) {
        return refuse(Code::kInvalidArgument, "this is what the command reads, and it would be overwritten");
      }
    }
    if (!S_ISREG(status.st_mode)) output.kind_ = Kind::kThrough;
  }
  if (!options.run.empty() && is_record_of(RunDirectory{options.run}, output.target_)) {
    return refuse(Code::kInvalidArgument, "is kept for what the run itself records; RUN/export has room");
  }
  return output;
}

Status Output::write(std::span<const std::byte> bytes) const {
  switch (kind_) {
    case Kind::kStandardOutput:
      say_text({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
      return finish_standard_output();
    case Kind::kThrough: {
      if (descriptor_ >= 0) {
        const int copy = fcntl(descriptor_, F_DUPFD_CLOEXEC, 0);
        return copy < 0 ? write_failed(name_) : write_through(Descriptor(copy), name_, bytes);
      }
      TROUPE_ASSIGN(const int opened, open_through(target_.string()));
      return write_through(Descriptor(opened), name_, bytes);
    }
    case Kind::kFile:
      break;
  }
  return write_file_atomic(target_.string(), bytes, mode_);
}

Status Output::write(std::string_view text) const { return write(std::as_bytes(std::span(text))); }

std::string Output::shown() const { return shown_path(name_); }

Result<std::string> Output::format(std::span<const std::string_view> formats, std::string_view otherwise) const {
  std::string suffix = fs::path(name_).extension().string();
  std::ranges::transform(suffix, suffix.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const std::string_view format : formats) {
    if (suffix.size() == format.size() + 1 && suffix.ends_with(format)) return std::string(format);
  }
  if (is_stream()) return std::string(otherwise);
  return Error{Code::kInvalidArgument,
               fmt::format("{} {}: expected a name that ends in .{}, or - for the standard output", option_, shown(),
                           fmt::join(formats, " or ."))};
}

}  // namespace troupe::apps
