#include <troupe/apps/cluster/detail/shell.hpp>

#include <fmt/core.h>

namespace troupe::apps::detail {

std::string shell_quoted(const std::string& text) {
  std::string inside;
  for (const char c : text) inside.append(c == '\'' ? "'\\''" : std::string(1, c));
  return fmt::format("'{}'", inside);
}

}  // namespace troupe::apps::detail
