#pragma once
// What many processes say, as lines of one stream with the speaker's name before each. What they say is not trusted: it
// can neither move the cursor nor forge another's line, and it takes bounded memory.
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include <troupe/core/clock.hpp>

namespace troupe::apps::detail {

inline constexpr std::size_t kLogLineBytesMax = 4096;  ///< a longer line is cut there and ends in "..."

/// Cuts a stream of bytes into lines. Keeps at most one line of kLogLineBytesMax.
class LineCutter {
 public:
  using Emit = std::function<void(std::string_view line)>;
  void append(std::string_view bytes, const Emit& emit);
  void finish(const Emit& emit);  ///< What was begun and not ended by a newline.

 private:
  void end_line(const Emit& emit);
  std::string line_;
};

/// Writes lines to a file descriptor without ever waiting for its reader: what does not fit is kept, up to 1 MiB; lines
/// beyond are dropped, and when the reader is back a line says how many.
class PrefixedOutput {
 public:
  explicit PrefixedOutput(int fd) : fd_(fd) {}

  /// "<name> | <line>", made printable (core/text.hpp).
  void line(std::string_view name, std::string_view line);
  bool pending() const { return !waiting_.empty(); }
  int fd() const { return fd_; }
  /// Writes as much as the reader takes, and waits for it for up to `patience`. When nobody reads any more (EPIPE),
  /// everything is dropped from then on.
  void write(Duration patience);
  /// The errno with which writing failed for good, a reader that has gone apart; 0: it has not.
  int failed() const { return failed_; }

 private:
  int fd_;
  bool closed_ = false;
  int failed_ = 0;
  std::string waiting_;
  std::size_t dropped_ = 0;
};

}  // namespace troupe::apps::detail
