#pragma once
// The terminal that somebody looks at, if there is one: for the progress line and for `troupe watch --terminal`.
#include <cstddef>
#include <optional>

namespace troupe::apps {

struct TerminalSize {
  std::size_t columns = 80, rows = 24;
};
/// Nothing: `fd` is no terminal, or one that does not know its size.
std::optional<TerminalSize> terminal_size(int fd);

/// Whether `fd` is a terminal on which a line can be written anew: by the variable TERM, which is "dumb" where it
/// cannot.
bool can_redraw(int fd);

}  // namespace troupe::apps
