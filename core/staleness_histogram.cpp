#include <troupe/core/staleness_histogram.hpp>

#include <algorithm>
#include <bit>

namespace troupe {

void StalenessHistogram::add(std::int64_t staleness, std::int64_t uses) {
  const auto bucket = static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(staleness)));
  buckets_[std::min(bucket, kBuckets - 1)] += uses;
  uses_ += uses;
  sum_ += static_cast<double>(staleness) * static_cast<double>(uses);
  max_ = std::max(max_, staleness);
}

std::int64_t StalenessHistogram::percentile(double share) const {
  std::int64_t seen = 0;
  for (std::size_t i = 0; i + 1 < kBuckets; ++i) {
    seen += buckets_[i];
    if (static_cast<double>(seen) >= share * static_cast<double>(uses_)) {
      return std::min((std::int64_t{1} << i) - 1, max_);
    }
  }
  return max_;
}

}  // namespace troupe
