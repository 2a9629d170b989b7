#include <troupe/collectives/verdict.hpp>

#include <fmt/format.h>

namespace troupe::collectives {

std::string activity_of(const Call& call) {
  const auto text = stood_for(call.name);
  if (!text) return fmt::format("{}({})", to_string(call.kind), call.name);
  // `all_reduce "critic/grad" float32[20, 10] mean`; behind the tensor's name there are no quotes.
  const std::size_t first = text->find('"');
  const std::size_t last = text->rfind('"');
  if (first == std::string_view::npos || first == 0 || last == first) return std::string(*text);
  return fmt::format("{}({})", text->substr(0, first - 1), text->substr(first + 1, last - first - 1));
}

std::string verdict(std::int64_t step, const GroupView& view, const Call& call, std::span<const MissingRank> missing) {
  std::string text = fmt::format("step {}:", step);
  const char* separator = " ";
  for (const MissingRank& one : missing) {
    text += fmt::format("{}rank {}", separator, one.rank);
    const auto member = static_cast<std::size_t>(one.rank);
    if (member < view.members.size() && !view.members[member].name.empty()) {
      text += fmt::format(" ({})", view.members[member].name);
    }
    text += fmt::format(" {} {}", one.has_entered ? "does not go on with" : "has not entered", activity_of(call));
    if (one.now && !one.now->what.empty()) {
      text += fmt::format("; it is in {} for {:.1f} s", one.now->what, seconds(one.now->since));
    }
    if (one.silent) text += fmt::format("; it does not answer for {:.1f} s", seconds(*one.silent));
    separator = "; ";
  }
  return text;
}

}  // namespace troupe::collectives
