#pragma once
// Text that came from outside (config values, file names, metric labels) made fit for a terminal, a log or a file.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

/// `text` on one line and without surprises: control characters and DEL become \n, \t or \x1b, bytes that are not
/// valid UTF-8 become \xff, and what is longer than bytes_max is cut at a character and ends in "...". So a hostile
/// label can neither move the cursor nor forge a line of log nor fill the disk.
std::string printable(std::string_view text, std::size_t bytes_max = 256);

/// A name for what people have called `text`: 1 to kSafeNameBytesMax characters of a-z 0-9 . _ - that begin with a
/// letter or digit, so that it can stand in a file name, a certificate and on a command line. What is such a name
/// already stays as it is; everything else gets the characters that will do and a hash of all its bytes, so that
/// different texts have different names.
std::string safe_name(std::string_view text);
inline constexpr std::size_t kSafeNameBytesMax = 64;

/// The lines of `text`, without their ends; an empty text has none.
std::vector<std::string_view> lines(std::string_view text);

/// The first bytes of `text`, at most bytes_max, without the beginning of a UTF-8 character that does not fit.
std::string_view shortened(std::string_view text, std::size_t bytes_max);

}  // namespace troupe
