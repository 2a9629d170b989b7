#include <troupe/core/nearest.hpp>

#include <algorithm>
#include <numeric>
#include <utility>

namespace troupe {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Rows of the dynamic programme; two old ones are kept because a swap looks back two characters.
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, last);
    std::swap(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitution = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, substitution});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::vector<std::string> nearest(std::string_view name, std::span<const std::string> known, std::size_t count) {
  std::vector<std::pair<std::size_t, const std::string*>> ranked;
  for (const std::string& candidate : known) {
    const std::size_t distance = edit_distance(name, candidate);
    const std::size_t longer = std::max(name.size(), candidate.size());
    const bool prefix = !name.empty() && (candidate.starts_with(name) || name.starts_with(candidate));
    if (prefix || 3 * distance <= longer) ranked.emplace_back(distance, &candidate);
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(count, ranked.size()); ++i) names.push_back(*ranked[i].second);
  return names;
}

}  // namespace troupe
