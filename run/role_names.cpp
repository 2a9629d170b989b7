#include <troupe/run/role_names.hpp>

#include <algorithm>
#include <array>

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

bool is_taken_name(std::string_view name) {
  return std::ranges::find(kTaken, name) != kTaken.end() || is_numbered(name) ||
         std::ranges::any_of(kEndings, [&](std::string_view ending) { return name.ends_with(ending); });
}

}  // namespace troupe::apps
