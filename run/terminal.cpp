#include <troupe/run/terminal.hpp>

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

#include <troupe/run/progress.hpp>

namespace troupe::apps {

std::optional<TerminalSize> terminal_size(int fd) {
  winsize size = {};
  if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return std::nullopt;
  return TerminalSize{size.ws_col, size.ws_row};
}

bool can_redraw(int fd) {
  const char* const term = std::getenv("TERM");
  return progress_style(isatty(fd) != 0, term == nullptr ? "" : term) == ProgressStyle::kLive;
}

}  // namespace troupe::apps
