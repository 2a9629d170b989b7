#pragma once
// Names in a line of the log or in an error: a run may have thousands of instances, and a line is for people.
#include <algorithm>
#include <ranges>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace troupe::actors {

/// "actor-0, actor-1, actor-2, actor-3, actor-4 and 1019 more".
template <std::ranges::sized_range Names>
std::string first_names(const Names& names) {
  constexpr std::size_t kMost = 5;
  const std::size_t said = std::min<std::size_t>(std::ranges::size(names), kMost);
  const std::size_t more = std::ranges::size(names) - said;
  const auto end = std::ranges::next(std::ranges::begin(names), static_cast<std::ptrdiff_t>(said));
  return fmt::format("{}{}", fmt::join(std::ranges::begin(names), end, ", "),
                     more == 0 ? "" : fmt::format(" and {} more", more));
}

}  // namespace troupe::actors
