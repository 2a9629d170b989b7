#include <troupe/run/role_names.hpp>

#include <algorithm>
#include <array>

#include <fmt/core.h>

namespace troupe::apps {
namespace {

/// Roles, and nodes that are called otherwise.
constexpr std::array<std::string_view, 11> kTaken = {"actor",      "inference", "replay",  "learner",
                                                     "parameters", "evaluator", "metrics", "actors",
                                                     "chief",      "operator",  "external"};
/// Of the roles of a group and of an agent with a name, and of what they are evaluated as at the end.
constexpr std::array<std::string_view, 11> kEndings = {"-evaluator", "-ps",     "-discriminator", "-actor",
                                                       "-inference", "-replay", "-learner",       "-parameters",
                                                       "-actors",    "-final",  "-external"};

bool is_numbered(std::string_view name) {
  const std::size_t end = name.find_last_not_of("0123456789");
  return end + 1 < name.size() && name[end] == '-';
}

}  // namespace

std::string why_taken(std::string_view name) {
  if (std::ranges::find(kTaken, name) != kTaken.end()) {
    return fmt::format("\"{}\" is what a role or node of Troupe's own is called: expected another name", name);
  }
  if (is_numbered(name)) return fmt::format("\"{}\" ends in a number, as instances do: expected another name", name);
  const auto ending = std::ranges::find_if(kEndings, [&](std::string_view end) { return name.ends_with(end); });
  if (ending == kEndings.end()) return "";
  return fmt::format("\"{}\" ends in \"{}\", as roles of agents and groups do: expected another name", name, *ending);
}

}  // namespace troupe::apps
