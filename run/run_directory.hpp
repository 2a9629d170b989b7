#pragma once
// runs/<name>-<time>/: everything that a run leaves behind, by its fixed names.
//   config.toml  metrics.csv  channels.csv  evaluations.csv  events.out.tfevents.*  learning_curve.svg  summary.json
//   log.txt  status.json  checkpoints/  render/ samples/  export/, and of a run over nodes cluster.toml  chief.json
//   chief.address nodes/  security/
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include <troupe/core/config.hpp>
#include <troupe/core/error.hpp>

namespace troupe::apps {

struct RunDirectory {
  std::filesystem::path path;

  std::filesystem::path config() const { return path / "config.toml"; }
  std::filesystem::path metrics() const { return path / "metrics.csv"; }
  std::filesystem::path channels() const { return path / "channels.csv"; }
  std::filesystem::path evaluations() const { return path / "evaluations.csv"; }
  std::filesystem::path learning_curve() const { return path / "learning_curve.svg"; }
  std::filesystem::path summary() const { return path / "summary.json"; }
  /// The run as its chief sees it, written anew each second, over nodes each ten (docs/page.md).
  std::filesystem::path status() const { return path / "status.json"; }
  std::filesystem::path log() const { return path / "log.txt"; }
  std::filesystem::path checkpoints() const { return path / "checkpoints"; }
  std::filesystem::path samples() const { return path / "samples"; }
  std::filesystem::path render() const { return path / "render"; }
  std::filesystem::path exports() const { return path / "export"; }
  /// Of a run over nodes where its chief is: what it has decided, and where it listens.
  std::filesystem::path journal() const { return path / "chief.json"; }
  std::filesystem::path chief_address() const { return path / "chief.address"; }

  /// The path as people may see it: on one line, see printable().
  std::string shown() const;
  /// The run's id, the one name that goes into its checkpoints, certificates and what other nodes are told: the
  /// directory's own name, made safe (safe_name()). It depends on nothing that is in the directory.
  std::string id() const;
};

/// Whether the directory that is open as `fd` is still the run's, and was neither moved nor replaced. What cannot be
/// told is not the case.
bool is_in_place(int fd, const RunDirectory& run);

/// Keeps a second process out of a run directory; given up when the holder ends, however it ends.
class RunLock {
 public:
  /// Errors: kUnavailable when another process has it; kIo.
  static Result<RunLock> take(const RunDirectory& run);
  RunLock(RunLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  RunLock& operator=(RunLock&&) = delete;
  ~RunLock();
  bool is_in_place(const RunDirectory& run) const { return apps::is_in_place(fd_, run); }

 private:
  explicit RunLock(int fd) : fd_(fd) {}
  int fd_;
};

struct NewRun {
  /// Empty: runs/<name>-<YYYYMMDD-HHMMSS of unix_s, local time>, with -2, -3, ... appended while that is taken.
  std::filesystem::path requested;
  std::string name;
  long long unix_s = 0;
  std::filesystem::path config = {};  ///< of the user's, which is not to be removed
};

/// The directory that a command is about to train in, or trains in: nobody else does while this object lives. A new run
/// has nothing worth keeping until it has been recorded: when this object goes before keep() was called, so does
/// everything that the run left there, and every directory that was made for it.
class ClaimedRun {
 public:
  /// A run that is there already and stays. Errors: those of RunLock.
  static Result<ClaimedRun> reopen(RunDirectory old);
  ClaimedRun(ClaimedRun&& other) noexcept;
  ClaimedRun& operator=(ClaimedRun&&) = delete;
  ~ClaimedRun();

  const RunDirectory& run() const { return run_; }
  void keep() { kept_ = true; }
  /// Leaves it to another process to keep others out, which loses nothing when this object goes.
  void unlock() { lock_.reset(); }

 private:
  friend Result<ClaimedRun> make_run_directory(const NewRun&);
  ClaimedRun(RunDirectory run, RunLock lock, std::filesystem::path first_made)
      : run_(std::move(run)), lock_(std::move(lock)), first_made_(std::move(first_made)) {}
  RunDirectory run_;
  std::optional<RunLock> lock_;
  std::filesystem::path first_made_;  ///< the topmost directory that was not there before; empty: all were
  bool kept_ = false;
};

/// Makes the directory of a new run. A requested one may hold an earlier start of a run that was killed before its
/// first checkpoint: what that one left is removed, but for its log, and rows and evaluations, which go to earlier-1,
/// earlier-2, ... in it. Errors: kAlreadyExists: it holds anything else;
/// kUnavailable: another process trains in it; kInvalidArgument: the path is too long for files in it; kIo.
Result<ClaimedRun> make_run_directory(const NewRun& wanted);

/// Writes config.toml, by whose first line it is known as a run's own. Errors: kIo.
Status write_config(const RunDirectory& run, const Config& config);

/// What a run within one process has left so far, for people who ask from outside: it has no chief to answer.
struct RunProgress {
  bool training = false;  ///< a process trains in the directory now
  bool ended = false;     ///< it has a summary
  double wall_s = 0;      ///< of the newest row of metrics, like those below
  std::int64_t env_steps = 0;
  std::int64_t learner_steps = 0;
  std::string checkpoint;  ///< name of the newest; empty: none yet
};

/// Whether there is a checkpoint of one process, or a cut of nodes that their chief has recorded.
bool has_checkpoint(const RunDirectory& run);
/// Whether the run can be gone on from in this way. Errors: kNotFound: it has no checkpoint, or only those of the
/// other.
Status check_resumable(const RunDirectory& run, bool over_nodes);
/// Whether nodes have ever trained in the directory.
bool has_nodes(const RunDirectory& run);
/// Errors: those of reading metrics.csv.
Result<RunProgress> progress_of(const RunDirectory& run);

/// Whether anything that is worth keeping came of the run: a row of metrics, an evaluation, or a checkpoint.
bool is_recorded(const RunDirectory& run);

/// Whether `file` is, or would be, something that the run itself writes and reads, and not one of the pictures and
/// exports that were made of it.
bool is_record_of(const RunDirectory& run, const std::filesystem::path& file);

/// The directory of a run that was started before. Errors: kNotFound when it is none (it has no config.toml).
Result<RunDirectory> open_run_directory(const std::filesystem::path& path);

}  // namespace troupe::apps
