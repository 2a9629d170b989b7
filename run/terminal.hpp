#pragma once
// The terminal that somebody looks at, if there is one: for progress lines and for `troupe watch --terminal`.
#include <cstddef>
#include <optional>
#include <string_view>

namespace troupe::apps {

struct TerminalSize {
  std::size_t columns = 80, rows = 24;
};
/// Nothing: `fd` is no terminal, or one that does not know its size.
std::optional<TerminalSize> terminal_size(int fd);

/// Whether a line can be written anew: on a terminal, unless the variable TERM, `term`, is empty or "dumb".
bool can_redraw(bool is_terminal, std::string_view term);
/// Of this one, by the process's TERM.
bool can_redraw(int fd);

}  // namespace troupe::apps
