#pragma once
// Text that came from outside (config values, file names, metric labels) made fit for a terminal, a log or a file.
#include <cstddef>
#include <string>
#include <string_view>

namespace troupe {

/// `text` on one line and without surprises: control characters and DEL become \n, \t or \x1b, bytes that are not
/// valid UTF-8 become \xff, and what is longer than bytes_max is cut at a character and ends in "...". So a hostile
/// label can neither move the cursor nor forge a line of log nor fill the disk.
std::string printable(std::string_view text, std::size_t bytes_max = 256);

}  // namespace troupe
