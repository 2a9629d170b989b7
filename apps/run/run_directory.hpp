#pragma once
// runs/<name>-<time>/: everything that a run leaves behind, by its fixed names.
//   config.toml  metrics.csv  events.out.tfevents.*  learning_curve.svg  summary.json  log.txt  checkpoints/  render/
//   samples/  export/
#include <filesystem>
#include <string>
#include <utility>

#include <troupe/core/error.hpp>

namespace troupe::apps {

struct RunDirectory {
  std::filesystem::path path;

  std::filesystem::path config() const { return path / "config.toml"; }
  std::filesystem::path metrics() const { return path / "metrics.csv"; }
  std::filesystem::path learning_curve() const { return path / "learning_curve.svg"; }
  std::filesystem::path summary() const { return path / "summary.json"; }
  std::filesystem::path log() const { return path / "log.txt"; }
  std::filesystem::path checkpoints() const { return path / "checkpoints"; }
  std::filesystem::path samples() const { return path / "samples"; }
  std::filesystem::path render() const { return path / "render"; }
  std::filesystem::path exports() const { return path / "export"; }
};

/// Makes the directory of a new run: `requested` if it is not empty (kAlreadyExists when it holds anything), else
/// runs/<name>-<YYYYMMDD-HHMMSS of unix_s, local time>, with -2, -3, ... appended while the name is taken.
/// Errors: kAlreadyExists, kIo.
Result<RunDirectory> make_run_directory(const std::filesystem::path& requested, const std::string& name,
                                        long long unix_s);

/// The directory of a run that was started before. Errors: kNotFound when it is none (it has no config.toml).
Result<RunDirectory> open_run_directory(const std::filesystem::path& path);

/// Keeps a second process out of a run directory; given up when the holder ends, however it ends.
class RunLock {
 public:
  /// Errors: kUnavailable when another process has it; kIo.
  static Result<RunLock> take(const RunDirectory& run);
  RunLock(RunLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  RunLock& operator=(RunLock&&) = delete;
  ~RunLock();

 private:
  explicit RunLock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace troupe::apps
