#include <troupe/apps/run/run_directory.hpp>

#include <fmt/chrono.h>
#include <fmt/core.h>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include <troupe/core/log.hpp>

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;

Error cannot_make(const fs::path& path, const std::error_code& error) {
  return {Code::kIo, fmt::format("run directory {}: cannot be made: {}", path.string(), error.message())};
}

}  // namespace

Result<RunDirectory> make_run_directory(const fs::path& requested, const std::string& name, long long unix_s) {
  std::error_code error;
  if (!requested.empty()) {
    fs::create_directories(requested, error);
    if (error) return cannot_make(requested, error);
    if (!fs::is_empty(requested, error) || error) {
      return Error{Code::kAlreadyExists,
                   fmt::format("run directory {}: is not empty; go on from it with --resume, or name another",
                               requested.string())};
    }
    return RunDirectory{requested};
  }
  const fs::path parent = "runs";
  fs::create_directories(parent, error);
  if (error) return cannot_make(parent, error);
  const std::string stem = fmt::format("{}-{:%Y%m%d-%H%M%S}", name, fmt::localtime(static_cast<std::time_t>(unix_s)));
  for (int n = 1;; ++n) {
    const fs::path path = parent / (n == 1 ? stem : fmt::format("{}-{}", stem, n));
    // create_directory makes it or says that somebody else did: two runs started at once get two directories.
    if (fs::create_directory(path, error)) return RunDirectory{path};
    if (error) return cannot_make(path, error);
  }
}

Result<RunDirectory> open_run_directory(const fs::path& path) {
  const RunDirectory run{path};
  std::error_code error;
  if (!fs::is_regular_file(run.config(), error)) {
    return Error{Code::kNotFound, fmt::format("{}: not the directory of a run: it has no config.toml", path.string())};
  }
  return run;
}

Result<RunLock> RunLock::take(const RunDirectory& run) {
  const int fd = open(run.path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return Error{Code::kIo, fmt::format("{}: {}", run.path.string(), std::strerror(errno))};
  RunLock lock(fd);
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      return Error{Code::kUnavailable, fmt::format("{}: another process trains in this directory", run.path.string())};
    }
    // Some network file systems know no locks. A second chief is found out by its term.
    log::warn("{}: this file system has no locks ({}): nothing keeps a second process from training here",
              run.path.string(), std::strerror(errno));
  }
  return lock;
}

RunLock::~RunLock() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace troupe::apps
