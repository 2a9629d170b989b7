#pragma once
// "Did you mean ...?": the known names nearest to one that was mistyped. Used wherever a person writes a name:
// environments, config keys, subcommands.
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

/// Optimal string alignment distance: insertions, deletions, substitutions and swaps of neighbours cost 1 each.
/// O(a.size() * b.size()) time, O(b.size()) memory.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// Up to `count` names of `known` that are plausibly what `name` was meant to be, best first (equal distances keep the
/// order of `known`). Plausible: at most a third of the longer word has to change, or one begins with the other.
/// Empty when nothing is near: a far-fetched suggestion is worse than none.
std::vector<std::string> nearest(std::string_view name, std::span<const std::string> known, std::size_t count = 3);

}  // namespace troupe
