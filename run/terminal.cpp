#include <troupe/run/terminal.hpp>

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

namespace troupe::apps {

std::optional<TerminalSize> terminal_size(int fd) {
  winsize size = {};
  if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return std::nullopt;
  return TerminalSize{size.ws_col, size.ws_row};
}

bool can_redraw(bool is_terminal, std::string_view term) { return is_terminal && !term.empty() && term != "dumb"; }

bool can_redraw(int fd) {
  const char* const term = std::getenv("TERM");
  return can_redraw(isatty(fd) != 0, term == nullptr ? "" : term);
}

}  // namespace troupe::apps
