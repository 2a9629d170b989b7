#include <troupe/core/detail/slots.hpp>

#include <algorithm>
#include <iterator>

#include <troupe/core/check.hpp>

namespace troupe {
namespace {
constexpr std::size_t kLongRun = 16;
}

std::optional<std::size_t> SlotRuns::take(std::size_t count) {
  const auto fits = [count](const auto& gap) { return gap.second >= count; };
  if (count < kLongRun) {
    const auto gap = std::find_if(free_.begin(), free_.end(), fits);
    if (gap == free_.end()) return std::nullopt;
    const auto [first, length] = *gap;
    free_.erase(gap);
    if (length > count) free_.emplace(first + count, length - count);
    return first;
  }
  const auto gap = std::find_if(free_.rbegin(), free_.rend(), fits);
  if (gap == free_.rend()) return std::nullopt;
  gap->second -= count;
  const std::size_t first = gap->first + gap->second;
  if (gap->second == 0) free_.erase(gap->first);
  return first;
}

void SlotRuns::give_back(std::size_t first, std::size_t count) {
  auto [gap, inserted] = free_.emplace(first, count);
  TROUPE_CHECK(inserted, "slot {} is free already", first);
  if (const auto next = std::next(gap); next != free_.end() && first + count == next->first) {
    gap->second += next->second;
    free_.erase(next);
  }
  if (gap == free_.begin()) return;
  if (const auto before = std::prev(gap); before->first + before->second == first) {
    before->second += gap->second;
    free_.erase(gap);
  }
}

}  // namespace troupe
