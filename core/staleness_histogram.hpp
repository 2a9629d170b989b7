#pragma once
// How stale what was used was: the parameter store counts environment steps by it, a discriminator generated images.
#include <array>
#include <cstddef>
#include <cstdint>

namespace troupe {

/// Counts of uses by staleness = newest version now - version that was used: bucket 0 holds staleness 0, bucket i
/// staleness 2^(i-1) .. 2^i - 1, the last one everything above.
class StalenessHistogram {
 public:
  static constexpr std::size_t kBuckets = 16;

  /// staleness >= 0.
  void add(std::int64_t staleness, std::int64_t uses);
  const std::array<std::int64_t, kBuckets>& buckets() const { return buckets_; }
  std::int64_t uses() const { return uses_; }
  double mean() const { return uses_ == 0 ? 0 : sum_ / static_cast<double>(uses_); }
  std::int64_t max() const { return max_; }
  /// A staleness that at least this share (0..1) of the uses did not exceed: the greatest of its bucket, or max() if
  /// that is less. 0 without uses.
  std::int64_t percentile(double share) const;

 private:
  std::array<std::int64_t, kBuckets> buckets_{};
  std::int64_t uses_ = 0;
  double sum_ = 0;
  std::int64_t max_ = 0;
};

}  // namespace troupe
