#include <troupe/apps/cluster/detail/shell.hpp>

#include <sstream>

#include <fmt/core.h>

namespace troupe::apps::detail {

std::string shell_quoted(const std::string& text) {
  std::string inside;
  for (const char c : text) inside.append(c == '\'' ? "'\\''" : std::string(1, c));
  return fmt::format("'{}'", inside);
}

std::vector<std::string> words(std::string_view text) {
  std::istringstream stream{std::string(text)};
  std::vector<std::string> all;
  for (std::string word; stream >> word;) all.push_back(word);
  return all;
}

}  // namespace troupe::apps::detail
