#include <troupe/run/followed_csv.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>

#include <troupe/core/text.hpp>
#include <troupe/run/csv_cells.hpp>

namespace troupe::apps {
namespace {

constexpr std::size_t kLineBytesMax = std::size_t{1} << 20;
constexpr std::size_t kTextsMax = 4096;
constexpr std::size_t kTaken = 64;  ///< bytes of FollowedCsv::last_taken_

/// Up to `bytes` of a file from `from` on. Errors: kIo.
Result<std::string> read_at(int fd, off_t from, std::size_t bytes, const std::filesystem::path& path) {
  std::string text(bytes, '\0');
  std::size_t got = 0;
  while (got < bytes) {
    const ssize_t count = pread(fd, text.data() + got, bytes - got, from + static_cast<off_t>(got));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Error{Code::kIo, fmt::format("read {}: {}", path.string(), std::strerror(errno))};
    if (count == 0) break;
    got += static_cast<std::size_t>(count);
  }
  text.resize(got);
  return text;
}

/// The first line that begins in `text`, without its end; nothing when it is not whole.
std::optional<std::string_view> first_line(std::string_view text) {
  const std::size_t end = text.find('\n');
  return end == std::string_view::npos ? std::nullopt : std::optional(text.substr(0, end));
}

}  // namespace

FollowedCsv::~FollowedCsv() {
  if (fd_ >= 0) close(fd_);
}

std::size_t FollowedCsv::find(std::string_view name) const {
  return static_cast<std::size_t>(std::ranges::find(names_, name) - names_.begin());
}

std::size_t FollowedCsv::most_rows() const {
  return std::clamp<std::size_t>(kCellsMax / std::max<std::size_t>(names_.size(), 1), 16, rows_max_);
}

Status FollowedCsv::poll() {
  struct stat here = {}, there = {};
  const bool exists = stat(path_.c_str(), &there) == 0 && S_ISREG(there.st_mode);
  if (!exists) return {};
  const bool same = fd_ >= 0 && fstat(fd_, &here) == 0 && here.st_ino == there.st_ino && here.st_dev == there.st_dev;
  if (!same || there.st_size < offset_ || (there.st_size > offset_ && !goes_on())) return reopen();
  const auto more = static_cast<std::size_t>(std::min(there.st_size - offset_, kWholeBytesMax));
  if (more == 0) return {};
  TROUPE_ASSIGN(const std::string text, read_at(fd_, offset_, more, path_));
  std::string_view rest = text;
  while (const auto line = first_line(rest)) {
    take(*line);
    rest.remove_prefix(line->size() + 1);
  }
  const std::size_t taken = text.size() - rest.size();
  if (taken == 0 && text.size() >= kLineBytesMax) {
    return Error{Code::kCorrupt, fmt::format("{}: a line of more than {} bytes", path_.string(), kLineBytesMax)};
  }
  offset_ += static_cast<off_t>(taken);
  if (taken > 0) last_taken_ = text.substr(taken - std::min(taken, kTaken), std::min(taken, kTaken));
  return {};
}

bool FollowedCsv::goes_on() const {
  const auto before = read_at(fd_, offset_ - static_cast<off_t>(last_taken_.size()), last_taken_.size(), path_);
  return before.ok() && *before == last_taken_;
}

Status FollowedCsv::reopen() {
  if (fd_ >= 0) close(fd_);
  fd_ = open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd_ < 0 && errno == ENOENT) return {};
  if (fd_ < 0) return Error{Code::kIo, fmt::format("open {}: {}", path_.string(), std::strerror(errno))};
  ++generation_;
  offset_ = 0;
  last_taken_.clear();
  names_.clear(), columns_.clear(), is_text_.clear(), texts_.clear();
  rows_ = 0;
  struct stat now = {};
  if (fstat(fd_, &now) != 0 || !S_ISREG(now.st_mode)) {
    return Error{Code::kIo, fmt::format("{}: not a regular file", path_.string())};
  }
  const auto begins = static_cast<std::size_t>(std::min(now.st_size, static_cast<off_t>(kLineBytesMax)));
  TROUPE_ASSIGN(const std::string head, read_at(fd_, 0, begins, path_));
  const auto names = first_line(head);
  if (!names) return head.size() < kLineBytesMax ? Status() : Status(read_names(""));
  TROUPE_TRY(read_names(*names));
  const auto data = static_cast<off_t>(names->size() + 1);
  offset_ = data;
  last_taken_ = head.substr(static_cast<std::size_t>(data) - std::min<std::size_t>(data, kTaken),
                            std::min<std::size_t>(data, kTaken));
  if (now.st_size - data > kWholeBytesMax) TROUPE_TRY(pick_lines(data, now.st_size));
  return poll();
}

Status FollowedCsv::read_names(std::string_view line) {
  if (!line.empty()) names_ = csv_cells(line);
  if (names_.empty() || names_.size() > kColumnsMax) {
    const std::size_t count = names_.size();
    names_.clear();
    return Error{Code::kCorrupt,
                 fmt::format("{}:1: got {} columns, expected 1 to {}", path_.string(), count, kColumnsMax)};
  }
  for (std::string& name : names_) name = printable(name);
  columns_.assign(names_.size(), {});
  is_text_.resize(names_.size());
  for (std::size_t i = 0; i < names_.size(); ++i) is_text_[i] = names_[i] == "source";
  return {};
}

/// Of a long file: lines at even distances up to where the end is near enough to be read as it comes.
Status FollowedCsv::pick_lines(off_t from, off_t to) {
  const std::size_t picks = std::max<std::size_t>(most_rows() / 2, 1);
  constexpr off_t kTail = 256 << 10;  // is read line by line
  to -= kTail;
  off_t next = from;  // no line twice
  std::size_t window = 4096;
  for (std::size_t i = 0; i < picks; ++i) {
    const off_t at =
        from + static_cast<off_t>(static_cast<double>(to - from) * static_cast<double>(i) / static_cast<double>(picks));
    if (at < next) continue;
    while (true) {
      // Whatever `at` falls into, the line behind it is whole; the first of all begins at its place.
      TROUPE_ASSIGN(const std::string text, read_at(fd_, at, window, path_));
      std::string_view rest = text;
      if (at > from) rest.remove_prefix(std::min(rest.find('\n'), rest.size() - 1) + 1);
      const auto line = first_line(rest);
      if (line) {
        take(*line);
        next = at + static_cast<off_t>(line->data() + line->size() + 1 - text.data());
      }
      if (line || window >= kLineBytesMax || text.size() < window) break;
      window *= 2;
    }
  }
  // From the first line that begins behind `to`.
  TROUPE_ASSIGN(const std::string text, read_at(fd_, to, kTail, path_));
  const std::size_t end = text.find('\n');
  if (end == std::string::npos) return {};
  offset_ = to + static_cast<off_t>(end) + 1;
  last_taken_ = text.substr(end + 1 - std::min(end + 1, kTaken), std::min(end + 1, kTaken));
  return {};
}

void FollowedCsv::take(std::string_view line) {
  if (names_.empty()) return;
  std::vector<double> cells;
  cells.reserve(names_.size());
  std::string cell;
  for (bool more = true; more && cells.size() < names_.size();) {
    const std::size_t column = cells.size();
    more = next_cell(line, cell);
    double value = std::numeric_limits<double>::quiet_NaN();
    if (is_text_[column]) {
      const std::string text = printable(cell);
      auto found = std::ranges::find(texts_, text);
      if (found == texts_.end() && texts_.size() < kTextsMax) found = texts_.insert(texts_.end(), text);
      if (found == texts_.end()) return (void)++skipped_;
      value = static_cast<double>(found - texts_.begin());
    } else if (!cell.empty()) {
      const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
      if (error != std::errc() || end != cell.data() + cell.size()) return (void)++skipped_;
    }
    cells.push_back(value);
  }
  if (cells.size() != names_.size() || std::isnan(cells.front())) return (void)++skipped_;
  for (std::size_t i = 0; i < cells.size(); ++i) columns_[i].push_back(cells[i]);
  if (++rows_ > most_rows()) thin();
}

void FollowedCsv::thin() {
  const std::vector<double>& at = columns_.front();
  // Room enough between neighbours that about half of the lines are left, whatever their distances were.
  const double least = (at[rows_ - 1] - at[0]) / static_cast<double>(most_rows() / 2);
  const std::size_t key = static_cast<std::size_t>(std::ranges::find(is_text_, true) - is_text_.begin());
  std::map<double, double> last;  // time of the last that is kept, of each source apart
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i + 1 < rows_; ++i) {
    const auto [found, first] = last.try_emplace(key < columns_.size() ? columns_[key][i] : 0, at[i]);
    if (!first && std::abs(at[i] - found->second) < least) continue;
    found->second = at[i];
    kept.push_back(i);
  }
  if (kept.size() > rows_ * 3 / 4) {  // time went back and forth, or there are very many sources: by number then
    kept.clear();
    for (std::size_t i = 0; i + 1 < rows_; i += 2) kept.push_back(i);
  }
  kept.push_back(rows_ - 1);
  for (std::vector<double>& column : columns_) {
    for (std::size_t i = 0; i < kept.size(); ++i) column[i] = column[kept[i]];
    column.resize(kept.size());
  }
  rows_ = kept.size();
  ++generation_;
}

}  // namespace troupe::apps
