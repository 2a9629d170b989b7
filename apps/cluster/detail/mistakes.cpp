#include <troupe/apps/cluster/detail/mistakes.hpp>

#include <algorithm>
#include <limits>
#include <variant>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <troupe/core/nearest.hpp>
#include <troupe/core/text.hpp>

namespace troupe::apps::detail {

std::string suggestion(std::string_view got, std::span<const std::string> known) {
  const std::vector<std::string> names = nearest(got, known, 1);
  return names.empty() ? "" : fmt::format(" (did you mean {}?)", names[0]);
}

Status Mistakes::report() const {
  if (found_.empty()) return {};
  auto sorted = found_;
  const auto place = [](std::size_t line) { return line == 0 ? std::numeric_limits<std::size_t>::max() : line; };
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const auto& a, const auto& b) { return place(a.first) < place(b.first); });
  std::vector<std::string> lines;
  for (const auto& [line, what] : sorted) {
    lines.push_back(line == 0 ? fmt::format("{}: {}", file_, what) : fmt::format("{}:{}: {}", file_, line, what));
  }
  return Error{Code::kInvalidArgument, fmt::format("{}", fmt::join(lines, "\n"))};
}

bool Mistakes::is_table(const TomlValue& value, std::string_view what, const std::vector<std::string>& known) {
  const auto* table = std::get_if<TomlValue::Table>(&value.value);
  if (table == nullptr) {
    add(value.line, fmt::format("{} is a table: got {}", what, type_name(value)));
    return false;
  }
  for (const TomlMember& member : *table) {
    if (std::find(known.begin(), known.end(), member.name) != known.end()) continue;
    add(member.line, fmt::format("unknown key {} of {}{}, expected {}", printable(member.name), what,
                                 suggestion(member.name, known), fmt::join(known, ", ")));
  }
  return true;
}

template <typename T>
const T* Mistakes::get(const TomlValue& table, std::string_view name, std::string_view expected) {
  const TomlMember* member = table.find(name);
  if (member == nullptr) return nullptr;
  const T* value = std::get_if<T>(&member->value.value);
  if (value == nullptr) {
    add(member->line, fmt::format("{}: wrong type: got {}, expected {}", name, type_name(member->value), expected));
  }
  return value;
}

const std::string* Mistakes::text(const TomlValue& table, std::string_view name) {
  return get<std::string>(table, name, "a string");
}
const std::int64_t* Mistakes::integer(const TomlValue& table, std::string_view name) {
  return get<std::int64_t>(table, name, "an integer");
}
const TomlValue::List* Mistakes::list(const TomlValue& table, std::string_view name) {
  return get<TomlValue::List>(table, name, "a list");
}

}  // namespace troupe::apps::detail
