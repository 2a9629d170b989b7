#include <troupe/run/run_directory.hpp>

#include <fmt/chrono.h>
#include <fmt/core.h>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <ctime>
#include <fstream>
#include <string_view>
#include <thread>
#include <vector>

#include <troupe/actors/control/chief_journal.hpp>
#include <troupe/core/atomic_file.hpp>
#include <troupe/core/log.hpp>
#include <troupe/core/text.hpp>
#include <troupe/messages/detail/checkpoint_names.hpp>
#include <troupe/run/csv_metrics.hpp>

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;

/// The longest path in a run directory: nodes/<node>/<instance>/..., checkpoints/<node>/step-.../<instance>.chunks.
constexpr std::size_t kInnerPathBytes = 320;
/// "-20231114-221320" and "-999" behind a name.
constexpr std::size_t kStampBytes = 20;
constexpr const char* kRuns = "runs";

/// What the start of a run leaves before its first checkpoint, the first file first. The log is kept for whoever
/// wonders how it ended.
constexpr std::array<std::string_view, 14> kLeftByAStart = {
    "config.toml",  "metrics.csv", "channels.csv",  "evaluations.csv", "learning_curve.svg",
    "summary.json", "status.json", "checkpoints",   "samples",         "nodes",
    "cluster.toml", "chief.json",  "chief.address", "security"};
constexpr std::string_view kLog = "log.txt", kEvents = "events.out.tfevents.", kSummaryFile = "summary.json";
/// Where what a start without a checkpoint had recorded goes when another one begins: "earlier-1", "earlier-2", ...
constexpr std::string_view kEarlier = "earlier-";
constexpr std::string_view kConfigHeader =
    "# What this run of Troupe was begun with, every key of it. The run writes it.";

/// How the names of checkpoints begin.
constexpr std::string_view kOfOneProcess = "step-", kCut = "cut";

bool has_checkpoint_named(const RunDirectory& run, std::string_view begins) {
  std::error_code ignored;
  const fs::directory_iterator entries(run.checkpoints(), ignored);
  return std::any_of(begin(entries), end(entries), [&](const fs::directory_entry& entry) {
    return entry.path().filename().string().starts_with(begins);
  });
}

/// The file, or what was being written of it when the process died: "metrics.csv.tmp-123".
bool is_of(const std::string& name, std::string_view file) {
  return name.starts_with(file) &&
         (name.size() == file.size() || std::string_view(name).substr(file.size()).starts_with(".tmp"));
}

bool is_left_by_a_start(const std::string& name) {
  const auto own = [&](std::string_view left) { return is_of(name, left); };
  return std::any_of(kLeftByAStart.begin(), kLeftByAStart.end(), own) || name.starts_with(kEvents);
}

Error cannot_make(const fs::path& path, const std::error_code& error) {
  return {Code::kIo, fmt::format("run directory {}: cannot be made: {}", RunDirectory{path}.shown(), error.message())};
}

/// Removes what an unfinished start has left. Nothing that is not known to be of one is touched.
void clear_start(const fs::path& directory) {
  std::error_code ignored;
  std::vector<fs::path> left;
  for (const auto& entry : fs::directory_iterator(directory, ignored)) {
    if (is_left_by_a_start(entry.path().filename().string())) left.push_back(entry.path());
  }
  for (const fs::path& path : left) fs::remove_all(path, ignored);
}

/// Whether a config.toml, or what was being written of it, is a run's own and not the user's.
bool is_config_of_a_start(const fs::directory_entry& entry, const fs::path& users) {
  std::error_code error;
  if (!entry.is_regular_file(error) || fs::equivalent(entry.path(), users, error)) return false;
  if (entry.path().filename() != kLeftByAStart.front()) return true;
  std::ifstream file(entry.path());
  std::string line;
  return std::getline(file, line) && line == kConfigHeader;
}

/// Whether nothing in it is more than what was being written of a first checkpoint: of one process, or the parts of
/// nodes whose chief has committed none.
bool has_only_begun_checkpoints(const RunDirectory& run) {
  std::error_code error;
  const auto journal = actors::load_journal(run.journal());
  for (const auto& entry : fs::directory_iterator(run.checkpoints(), error)) {
    const std::string name = entry.path().filename().string();
    const bool part = journal.ok() && journal->last_cut == 0 && journal->nodes.contains(name);
    const bool empty = entry.is_directory(error) && fs::is_empty(entry.path(), error);
    if (!part && !empty && !name.starts_with(messages::kTemporaryPrefix)) return false;
  }
  return true;
}

bool is_earlier(const fs::path& path) {
  const std::string name = path.filename().string();
  std::error_code ignored;
  return name.starts_with(kEarlier) && fs::is_directory(path, ignored) &&
         name.find_first_not_of("0123456789", kEarlier.size()) == std::string::npos;
}

bool has_earlier(const RunDirectory& run) {
  std::error_code ignored;
  const fs::directory_iterator entries(run.path, ignored);
  return std::any_of(begin(entries), end(entries), [](const auto& entry) { return is_earlier(entry.path()); });
}

/// Moves what an unfinished start has left into a folder of its own.
Status set_aside(const RunDirectory& run) {
  std::error_code error;
  fs::path aside;
  for (int n = 1; aside.empty() || fs::exists(aside, error); ++n) aside = run.path / fmt::format("{}{}", kEarlier, n);
  fs::create_directory(aside, error);
  if (error) return cannot_make(aside, error);
  std::vector<fs::path> left;
  for (const auto& entry : fs::directory_iterator(run.path, error)) {
    if (is_left_by_a_start(entry.path().filename().string())) left.push_back(entry.path());
  }
  for (const fs::path& path : left) {
    fs::rename(path, aside / path.filename(), error);
    if (error) return Error{Code::kIo, fmt::format("{}: {}", run.shown(), error.message())};
  }
  log::info("what an earlier start without a checkpoint had recorded is in {}", printable(aside.string()));
  return {};
}

/// Makes room in a directory that holds something: nothing but an earlier start of a run that had no checkpoint yet.
Status take_over(const RunDirectory& run, const fs::path& config) {
  std::error_code error;
  bool known = has_only_begun_checkpoints(run), begun = has_earlier(run);
  for (const auto& entry : fs::directory_iterator(run.path, error)) {
    const std::string name = entry.path().filename().string();
    const bool is_config = is_of(name, kLeftByAStart.front());
    known = known && !entry.is_symlink() && (name == kLog || is_earlier(entry.path()) || is_left_by_a_start(name)) &&
            name != kSummaryFile && (!is_config || is_config_of_a_start(entry, config));
    begun = begun || is_config;
  }
  if (error || !known || !begun) {
    return Error{
        Code::kAlreadyExists,
        fmt::format("run directory {}: is not empty; go on from it with --resume, or name another", run.shown())};
  }
  if (is_recorded(run)) TROUPE_TRY(set_aside(run));
  clear_start(run.path);
  return {};
}

/// The topmost part of `path` that is not there.
fs::path first_missing(fs::path path) {
  std::error_code error;
  fs::path missing;
  for (path = fs::absolute(path, error).lexically_normal(); !path.empty() && !fs::exists(path, error);
       path = path.parent_path()) {
    missing = path;
  }
  return missing;
}

// Who looks at a run asks whether it is locked, which must not keep it from being.
constexpr int kLockTries = 20;
constexpr std::chrono::milliseconds kLockPause{5};

bool is_locked(const RunDirectory& run) {
  const int fd = open(run.path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool locked = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(fd);
  return locked;
}

}  // namespace

std::string RunDirectory::shown() const { return printable(path.string(), PATH_MAX); }

std::string RunDirectory::id() const {
  std::error_code error;
  const fs::path absolute = (fs::absolute(path, error) / "").lexically_normal();
  return safe_name(absolute.parent_path().filename().string());
}

Result<ClaimedRun> ClaimedRun::reopen(RunDirectory old) {
  TROUPE_ASSIGN(RunLock lock, RunLock::take(old));
  ClaimedRun claimed(std::move(old), std::move(lock), {});
  claimed.keep();
  return claimed;
}

ClaimedRun::ClaimedRun(ClaimedRun&& other) noexcept
    : run_(std::move(other.run_)),
      lock_(std::move(other.lock_)),
      first_made_(std::move(other.first_made_)),
      kept_(std::exchange(other.kept_, true)) {}

ClaimedRun::~ClaimedRun() {
  if (kept_) return;
  if (!lock_) {
    auto again = RunLock::take(run_);
    if (!again.ok()) return;
    lock_.emplace(std::move(again).value());
  }
  if (!lock_->is_in_place(run_)) return;  // what is there now is somebody else's
  std::error_code ignored;
  clear_start(run_.path);
  if (has_earlier(run_)) return;  // whose log it is, too
  fs::remove(run_.log(), ignored);
  if (first_made_.empty()) return;
  // From the innermost out, and only what is empty: somebody else may have begun to use one of them.
  fs::path path = fs::absolute(run_.path, ignored).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  while (fs::remove(path, ignored) && path != first_made_) path = path.parent_path();
}

Result<ClaimedRun> make_run_directory(const NewRun& wanted) {
  std::error_code error;
  if (const fs::path& requested = wanted.requested; !requested.empty()) {
    if (const std::size_t bytes = requested.string().size(); bytes + kInnerPathBytes > PATH_MAX) {
      return Error{Code::kInvalidArgument,
                   fmt::format("run directory {}: the path has {} bytes, expected at most {}, as the files in it have "
                               "longer ones",
                               printable(requested.string()), bytes, PATH_MAX - kInnerPathBytes)};
    }
    const fs::path first_made = first_missing(requested);
    fs::create_directories(requested, error);
    if (error) return cannot_make(requested, error);
    const RunDirectory run{requested};
    TROUPE_ASSIGN(RunLock lock, RunLock::take(run));
    if (!fs::is_empty(requested, error) || error) TROUPE_TRY(take_over(run, wanted.config));
    return ClaimedRun(run, std::move(lock), first_made);
  }
  const fs::path parent = kRuns;
  const fs::path first_made = first_missing(parent);
  fs::create_directories(parent, error);
  if (error) return cannot_make(parent, error);
  const std::string stem = fmt::format("{}-{:%Y%m%d-%H%M%S}", shortened(wanted.name, NAME_MAX - kStampBytes),
                                       fmt::localtime(static_cast<std::time_t>(wanted.unix_s)));
  for (int n = 1;; ++n) {
    const RunDirectory run{parent / (n == 1 ? stem : fmt::format("{}-{}", stem, n))};
    // create_directory makes it or says that somebody else did: two runs started at once get two directories.
    if (fs::create_directory(run.path, error)) {
      TROUPE_ASSIGN(RunLock lock, RunLock::take(run));
      return ClaimedRun(run, std::move(lock), first_made.empty() ? fs::absolute(run.path, error) : first_made);
    }
    if (error) return cannot_make(run.path, error);
  }
}

Status write_config(const RunDirectory& run, const Config& config) {
  return write_file_atomic(run.config().string(), fmt::format("{}\n{}", kConfigHeader, config.to_toml()));
}

bool has_checkpoint(const RunDirectory& run) {
  return has_checkpoint_named(run, kOfOneProcess) || has_checkpoint_named(run, kCut);
}

Status check_resumable(const RunDirectory& run, bool over_nodes) {
  for (const fs::path& file : {run.summary(), run.status(), run.learning_curve()}) {
    std::error_code ignored;
    if (!fs::exists(file, ignored) || fs::is_regular_file(file, ignored)) continue;
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: is no file, and the run writes one there: move it away", printable(file.string()))};
  }
  if (has_checkpoint_named(run, over_nodes ? kCut : kOfOneProcess)) return {};
  std::string message = "the run has no checkpoint to go on from; start it again with --run-dir " + run.shown();
  if (has_checkpoint_named(run, over_nodes ? kOfOneProcess : kCut)) {
    message = over_nodes ? "the run has no checkpoint of nodes, only of one process: go on from it in one"
                         : "the run has no checkpoint of one process, only of nodes: go on from it over nodes "
                           "(--processes, or as it was begun)";
  }
  return Error{Code::kNotFound, fmt::format("{}: {}", run.shown(), message)};
}

bool has_nodes(const RunDirectory& run) {
  std::error_code ignored;
  return fs::exists(run.path / "cluster.toml", ignored) || fs::exists(run.chief_address(), ignored);
}

Result<RunProgress> progress_of(const RunDirectory& run) {
  RunProgress progress;
  progress.training = is_locked(run);
  std::error_code ignored;
  progress.ended = !progress.training && fs::exists(run.summary(), ignored);
  for (const auto& entry : fs::directory_iterator(run.checkpoints(), ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("step-")) progress.checkpoint = std::max(progress.checkpoint, name);
  }
  if (!fs::exists(run.metrics(), ignored)) return progress;
  TROUPE_ASSIGN(const std::vector<MetricRow> rows, read_metrics_csv(run.metrics()));
  if (rows.empty()) return progress;
  progress.wall_s = rows.back().wall_s;
  progress.env_steps = rows.back().env_steps;
  progress.learner_steps = rows.back().learner_steps;
  return progress;
}

bool is_recorded(const RunDirectory& run) {
  const auto has_row = [](const fs::path& table) {
    std::ifstream file(table);
    std::string line;
    return std::getline(file, line) && std::getline(file, line);  // the first names the columns
  };
  return has_checkpoint(run) || has_row(run.metrics()) || has_row(run.evaluations());
}

bool is_record_of(const RunDirectory& run, const fs::path& file) {
  std::error_code error;
  const fs::path inside = fs::weakly_canonical(fs::absolute(file, error), error)
                              .lexically_relative(fs::weakly_canonical(fs::absolute(run.path, error), error));
  if (error || inside.empty()) return false;
  const std::string first = inside.begin()->string();
  return first == kLog || is_left_by_a_start(first);
}

Result<RunDirectory> open_run_directory(const fs::path& path) {
  const RunDirectory run{path};
  std::error_code error;
  if (!fs::is_regular_file(run.config(), error)) {
    return Error{Code::kNotFound, fmt::format("{}: not the directory of a run: it has no config.toml", run.shown())};
  }
  if (fs::is_empty(run.config(), error)) {
    return Error{Code::kCorrupt,
                 fmt::format("{}: its config.toml is empty, expected what the run was begun with: put it "
                             "back from a copy, or begin a new run",
                             run.shown())};
  }
  return run;
}

bool is_in_place(int fd, const RunDirectory& run) {
  struct stat then {};
  struct stat now {};
  return fstat(fd, &then) == 0 && stat(run.path.c_str(), &now) == 0 && now.st_dev == then.st_dev &&
         now.st_ino == then.st_ino;
}

Result<RunLock> RunLock::take(const RunDirectory& run) {
  const int fd = open(run.path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return Error{Code::kIo, fmt::format("{}: {}", run.shown(), std::strerror(errno))};
  RunLock lock(fd);
  for (int tries = 1; flock(fd, LOCK_EX | LOCK_NB) != 0; ++tries) {
    if (errno != EWOULDBLOCK) {
      // Some network file systems know no locks. A second chief is found out by its term.
      log::warn("{}: this file system has no locks ({}): nothing keeps a second process from training here",
                run.shown(), std::strerror(errno));
      break;
    }
    if (tries == kLockTries) {
      return Error{Code::kUnavailable, fmt::format("{}: another process trains in this directory", run.shown())};
    }
    std::this_thread::sleep_for(kLockPause);
  }
  return lock;
}

RunLock::~RunLock() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace troupe::apps
