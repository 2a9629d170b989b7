#pragma once
// The newest whole lines of a text file that grows: a run's log, and channels.csv, of which only the newest matter.
// Used by page/watched_run.hpp.
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <string>

#include <troupe/core/error.hpp>

namespace troupe::page {

/// Not thread-safe.
class FollowedText {
 public:
  /// Of a file that is there already only the last bytes are read, and no more than that at any time.
  static constexpr off_t kBytesMax = 256 << 10;
  static constexpr std::size_t kLineBytesMax = 2048;  ///< longer ones are cut

  FollowedText(std::filesystem::path path, std::size_t lines_max) : path_(std::move(path)), lines_max_(lines_max) {}

  /// Takes what has come since the last call. A file that is not there is no error. Errors: kIo.
  Status poll();

  /// The newest lines, without their ends, printable.
  const std::deque<std::string>& lines() const { return lines_; }
  /// How many there were before the first of lines().
  std::uint64_t before() const { return before_; }

 private:
  std::filesystem::path path_;
  std::size_t lines_max_;
  ino_t inode_ = 0;
  off_t offset_ = 0;
  std::deque<std::string> lines_;
  std::uint64_t before_ = 0;
};

}  // namespace troupe::page
