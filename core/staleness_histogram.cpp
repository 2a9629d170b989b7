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

}  // namespace troupe
