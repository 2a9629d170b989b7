#include <troupe/page/watched_run.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <system_error>
#include <utility>

#include <troupe/core/atomic_file.hpp>
#include <troupe/core/text.hpp>
#include <troupe/run/csv_cells.hpp>

namespace troupe::page {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kRowsMax = 2000;
constexpr std::size_t kLogLinesMax = 400;
constexpr std::size_t kPicturesMax = 4000;
constexpr std::uint64_t kTextFileBytesMax = 1 << 20, kStatusBytesMax = 16 << 20;
/// Somebody else may want to train in the directory just when its lock is tried, so that is rare.
constexpr Duration kLockEvery = std::chrono::seconds(10);
constexpr Duration kAskAgain = std::chrono::milliseconds(200);
constexpr Duration kFilesEvery = std::chrono::seconds(3);
/// A status.json that is newer says that the run goes on.
constexpr double kFreshS = 4;

/// A file's text, or nothing when it is not there. Errors of reading are the reader's to see.
std::string text_of(const fs::path& path, std::uint64_t bytes_max) {
  const auto bytes = read_file(path.string(), bytes_max);
  if (!bytes.ok()) return "";
  return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
}

double unix_s() { return seconds(std::chrono::system_clock::now().time_since_epoch()); }

double number(const std::string& cell) {
  double value = std::nan("");
  std::from_chars(cell.data(), cell.data() + cell.size(), value);
  return value;
}

bool is_picture(const fs::path& path) { return path.extension() == ".png" || path.extension() == ".gif"; }

}  // namespace

std::string_view to_string(WatchedRun::State state) {
  switch (state) {
    case WatchedRun::State::kTrains:
      return "training";
    case WatchedRun::State::kEnded:
      return "ended";
    case WatchedRun::State::kStopped:
      return "not running";
    case WatchedRun::State::kGone:
      return "directory gone";
  }
  return "unknown";
}

WatchedRun::WatchedRun(apps::RunDirectory directory, AskChief ask, const Clock& clock)
    : directory_(std::move(directory)),
      ask_(std::move(ask)),
      clock_(clock),
      metrics_(directory_.metrics(), kRowsMax),
      evaluations_(directory_.evaluations(), kRowsMax),
      log_(directory_.log(), kLogLinesMax),
      channels_(directory_.channels(), kRowsMax) {}

void WatchedRun::note(const Status& status) {
  if (!status.ok()) notes_.push_back(printable(status.error().message));
}

void WatchedRun::refresh() {
  notes_.clear();
  note(metrics_.poll());
  note(evaluations_.poll());
  note(log_.poll());
  note(channels_.poll());
  look_at_channels();
  if (clock_.now() >= files_after_) {
    files_after_ = clock_.now() + kFilesEvery;
    if (std::string text = text_of(directory_.config(), kTextFileBytesMax); !text.empty()) config_ = std::move(text);
    summary_ = text_of(directory_.summary(), kTextFileBytesMax);
    look_at_pictures();
  }
  look_at_status();
  look_at_state();
  if (metrics_.skipped() > 0) {
    notes_.push_back(fmt::format("metrics.csv: {} lines made no sense and are left out", metrics_.skipped()));
  }
}

void WatchedRun::look_at_status() {
  const Duration begun = clock_.now();
  std::string text;
  if (ask_ && state_ != State::kGone && begun >= ask_after_) {
    chief_silent_.clear();
    auto answer = ask_(directory_);
    chief_answers_ = answer.ok();
    if (answer.ok()) {
      text = std::move(answer).value();
    } else {
      // One that does not answer costs its time-out.
      ask_after_ = clock_.now() + 10 * std::max(clock_.now() - begun, kAskAgain);
      if (answer.error().code != Code::kNotFound) chief_silent_ = printable(answer.error().message);
    }
  }
  if (!chief_answers_) text = text_of(directory_.status(), kStatusBytesMax);
  if (text.empty()) return;
  auto seen = read_status(text);
  if (!seen.ok()) return note(seen.error());
  const double written = seen->written_unix_s;
  seen_age_s_ = written > 0 ? std::max(0.0, unix_s() - written) : 0;
  seen_ = std::move(seen).value();
}

void WatchedRun::look_at_channels() {
  traffic_.clear();
  double newest = -1;
  const auto& lines = channels_.lines();
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    std::vector<std::string> cells = apps::csv_cells(*line);
    cells.resize(10);
    const double wall_s = number(cells[0]);
    if (std::isnan(wall_s)) continue;  // the names of the columns
    if (newest < 0) newest = wall_s;
    if (wall_s != newest) break;
    PortTraffic& port = traffic_.emplace_back();
    port.role = cells[3];
    port.port = cells[4];
    port.frames_per_s = number(cells[5]);
    port.bytes_per_s = number(cells[6]);
    port.waiting = number(cells[7]);
    port.refused_per_s = number(cells[8]);
    if (!cells[9].empty()) port.depth = number(cells[9]);
  }
}

void WatchedRun::look_at_state() {
  std::error_code error;
  if (!fs::is_directory(directory_.path, error)) {
    state_ = State::kGone;
    return;
  }
  // What was written after the summary is of a run that goes on again.
  const auto written = fs::last_write_time(directory_.status(), error);
  const bool fresh = !error && seen_ && seen_->written_unix_s > 0 && seen_age_s_ < kFreshS &&
                     (summary_.empty() || fs::last_write_time(directory_.summary(), error) < written);
  if (chief_answers_ || fresh) {
    state_ = State::kTrains;
    return;
  }
  if (clock_.now() >= lock_after_) {
    lock_after_ = clock_.now() + kLockEvery;
    const auto lock = apps::RunLock::take(directory_);
    locked_ = !lock.ok() && lock.error().code == Code::kUnavailable;
  }
  state_ = locked_ ? State::kTrains : summary_.empty() ? State::kStopped : State::kEnded;
  if (!chief_silent_.empty() && state_ != State::kEnded) notes_.push_back(chief_silent_);
}

void WatchedRun::look_at_pictures() {
  pictures_.clear();
  std::error_code error;
  for (const fs::path& folder : {directory_.samples(), directory_.render()}) {
    fs::recursive_directory_iterator found(folder, fs::directory_options::none, error);
    for (; !error && found != fs::recursive_directory_iterator(); found.increment(error)) {
      if (found.depth() > 1 || pictures_.size() >= kPicturesMax) break;
      if (!found->is_regular_file(error) || found->is_symlink(error) || !is_picture(found->path())) continue;
      pictures_.push_back(found->path().lexically_relative(directory_.path).string());
    }
  }
  std::ranges::sort(pictures_);
}

std::optional<double> WatchedRun::newest(std::string_view column) const {
  const std::size_t place = metrics_.find(column);
  if (place == metrics_.names().size()) return std::nullopt;
  for (std::size_t row = metrics_.rows(); row-- > 0;) {
    if (const double value = metrics_.cell(row, place); !std::isnan(value)) return value;
  }
  return std::nullopt;
}

}  // namespace troupe::page
