#pragma once
// What commands print on the standard output. A full disk or a reader that has gone must neither end a run nor pass for
// success: nothing is thrown, the stream remembers that it failed, and main() asks at the end.
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include <troupe/core/error.hpp>

namespace troupe::apps {

void say_text(std::string_view text, std::FILE* out = stdout);

/// fmt::print() to the standard output.
template <typename... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  say_text(fmt::format(format, std::forward<Args>(args)...));
}

/// `text` as one word of a command line that people may copy from what is said: as it is, or in a shell's quotes.
std::string shell_word(std::string_view text);

/// Whether `fd` was a terminal that somebody has closed, or a pipe whose reader has gone: there is nobody to be told,
/// and nothing to be lost.
bool nobody_reads(int fd);

/// Writes what is still in the buffer, at the end of the program: SIGPIPE is ignored from here on. Errors: kIo when
/// something that was said could not be written, now or before, though somebody may look on.
Status finish_standard_output();

}  // namespace troupe::apps
