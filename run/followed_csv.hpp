#pragma once
// metrics.csv or evaluations.csv of a run as who looks on needs it, followed while the run writes it: a bounded number
// of its lines, evenly over the time that they tell of, and each new line when it comes. Used by page/watched_run.hpp
// and by a sweep's progress. run/csv_table.hpp reads such files whole, which takes seconds and gigabytes for long runs.
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/core/error.hpp>

namespace troupe::apps {

/// Not thread-safe.
class FollowedCsv {
 public:
  /// Cells that a table holds at most, over all of its columns: 16 MiB.
  static constexpr std::size_t kCellsMax = std::size_t{1} << 21;
  static constexpr std::size_t kColumnsMax = 4096;
  /// Files up to here are read whole; of longer ones lines are picked at even distances, and from there on all new
  /// ones.
  static constexpr off_t kWholeBytesMax = 8 << 20;

  /// rows_max: lines that are held; when there are more, those go that are closest to their neighbours in time (the
  /// first column), so that half of them are left.
  FollowedCsv(std::filesystem::path path, std::size_t rows_max) : path_(std::move(path)), rows_max_(rows_max) {}
  ~FollowedCsv();
  FollowedCsv(const FollowedCsv&) = delete;
  FollowedCsv& operator=(const FollowedCsv&) = delete;

  /// Takes what has come since the last call, at most 8 MiB of it; the rest comes with the next call. A file that is
  /// not there yet, or no more, is no error: what was read stays. A line that makes no sense is left out and counted.
  /// Errors: kIo; kCorrupt: the first line names no columns, or too many.
  Status poll();

  /// Grows when lines that were there before are not there any more, or have more columns: read all anew.
  std::uint64_t generation() const { return generation_; }
  const std::vector<std::string>& names() const { return names_; }
  std::size_t rows() const { return rows_; }
  /// NaN: the line has nothing there. Of a column of text the number of a text().
  double cell(std::size_t row, std::size_t column) const { return columns_[column][row]; }
  bool is_text(std::size_t column) const { return is_text_[column]; }
  const std::string& text(double cell) const { return texts_[static_cast<std::size_t>(cell)]; }
  /// Its column; names().size() when there is none.
  std::size_t find(std::string_view name) const;
  /// Lines that made no sense.
  std::int64_t skipped() const { return skipped_; }

 private:
  Status reopen();
  Status read_names(std::string_view line);
  Status pick_lines(off_t from, off_t to);
  void take(std::string_view line);
  void thin();
  bool goes_on() const;
  std::size_t most_rows() const;

  std::filesystem::path path_;
  std::size_t rows_max_;
  int fd_ = -1;  ///< held open, so that no other file can have its inode
  off_t offset_ = 0;
  std::string last_taken_;  ///< the last bytes before offset_: who cuts a file and goes on leaves others there
  std::uint64_t generation_ = 0;
  std::vector<std::string> names_;
  std::vector<std::vector<double>> columns_;
  std::vector<bool> is_text_;
  std::vector<std::string> texts_;
  std::size_t rows_ = 0;
  std::int64_t skipped_ = 0;
};

}  // namespace troupe::apps
