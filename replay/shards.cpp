#include <troupe/replay/shards.hpp>

#include <fmt/format.h>

#include <algorithm>

#include <troupe/core/check.hpp>

namespace troupe::replay {

TableOptions shard_options(const TableOptions& whole, std::int64_t index, std::int64_t count) {
  TROUPE_CHECK(0 <= index && index < count, "shard {} of {}", index, count);
  if (count == 1) return whole;
  auto part = [&](std::int64_t limit) { return std::max<std::int64_t>(limit / count + (index < limit % count), 1); };
  TableOptions shard = whole;
  shard.name = fmt::format("{}-{}", whole.name, index);
  shard.max_items = part(whole.max_items);
  if (whole.max_bytes > 0) shard.max_bytes = std::max<std::int64_t>(whole.max_bytes / count, 1);
  RateLimiterOptions& limiter = shard.limiter;
  limiter.min_size_to_sample = part(whole.limiter.min_size_to_sample);
  const double spi = limiter.samples_per_insert;
  const double whole_middle = spi * static_cast<double>(whole.limiter.min_size_to_sample);
  const double middle = spi * static_cast<double>(limiter.min_size_to_sample);
  limiter.min_diff = middle + (whole.limiter.min_diff - whole_middle) / static_cast<double>(count);
  limiter.max_diff = middle + (whole.limiter.max_diff - whole_middle) / static_cast<double>(count);
  return shard;
}

void ShardMix::observe(std::size_t shard, std::int64_t items, double mass) {
  shards_.at(shard).items = items;
  shards_.at(shard).mass = mass;
}

std::optional<std::size_t> ShardMix::pick(const std::vector<bool>& available) {
  TROUPE_CHECK(available.size() == shards_.size(), "{} shards, {} of them known", available.size(), shards_.size());
  if (std::find(available.begin(), available.end(), true) == available.end()) return {};
  std::optional<std::size_t> furthest;
  for (std::size_t s = 0; s < shards_.size(); ++s) {
    shards_[s].deficit = std::min(shards_[s].deficit + share(s), kMostDeficit);
    if (available[s] && (!furthest || shards_[s].deficit > shards_[*furthest].deficit)) furthest = s;
  }
  shards_[*furthest].deficit = std::max(shards_[*furthest].deficit - 1, -kMostDeficit);
  return furthest;
}

std::int64_t ShardMix::items() const {
  std::int64_t sum = 0;
  for (const Shard& shard : shards_) sum += shard.items;
  return sum;
}

double ShardMix::share(std::size_t shard) const {
  double sum = 0;
  for (const Shard& each : shards_) sum += each.mass;
  return sum > 0 ? shards_.at(shard).mass / sum : 0;
}

}  // namespace troupe::replay
