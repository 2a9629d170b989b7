#pragma once
// One line a message to stderr, through spdlog (which only core/log.cpp includes), in colors on a terminal that has
// them. For people; numbers go to metrics.
#include <fmt/core.h>

#include <string_view>

namespace troupe::log {

enum class Level { kDebug, kInfo, kWarn, kError, kOff };

/// False: the user has set NO_COLOR (https://no-color.org).
bool colors_wanted();
/// Messages below `level` are dropped. The default is kInfo. Call once at start.
void set_level(Level level);
/// Where the lines go besides stderr, from now on: a file that is appended to. Failure is logged and otherwise ignored,
/// because losing the log must not stop a run.
void also_to_file(std::string_view path);
/// Whether a line of progress stands on the terminal: messages take its place then, and it is drawn anew below them.
void over_progress_line(bool stands);
/// Writes one line; safe from any thread.
void write(Level level, std::string_view message);

template <typename... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kDebug, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kWarn, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kError, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace troupe::log
