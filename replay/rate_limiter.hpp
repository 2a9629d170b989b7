#pragma once
// Paces inserts against samples, so that neither actors nor learner run ahead. The arithmetic is Reverb's
// (reverb/cc/rate_limiter.cc): with error = inserts * samples_per_insert - samples, inserts may not push the error above
// max_diff, samples not below min_diff, and nothing is sampled before min_size_to_sample items are present.
// Passive: it counts and answers; the table's owner does the waiting.
#include <cstdint>
#include <limits>
#include <string>

#include <troupe/core/error.hpp>

namespace troupe::replay {

/// The default admits every insert, and every sample once there is an item.
struct RateLimiterOptions {
  double samples_per_insert = 1.0;       ///< > 0
  std::int64_t min_size_to_sample = 1;   ///< items; > 0
  double min_diff = std::numeric_limits<double>::lowest();
  double max_diff = std::numeric_limits<double>::max();  ///< >= min_diff
};

/// reverb.rate_limiters.MinSize: only the minimum size matters.
RateLimiterOptions min_size(std::int64_t min_size_to_sample);

/// reverb.rate_limiters.SampleToInsertRatio: the error stays within error_buffer (in samples) of where it stood when
/// min_size_to_sample was reached. Acme takes 0.1 * samples_per_insert * min_size_to_sample.
/// Errors: kInvalidArgument; a buffer below max(1, samples_per_insert) is one, as it could block both sides for ever.
Result<RateLimiterOptions> sample_to_insert_ratio(double samples_per_insert, std::int64_t min_size_to_sample,
                                                  double error_buffer);

/// reverb.rate_limiters.Queue: for FIFO tables whose items are sampled once; at most `size` items wait.
RateLimiterOptions queue(std::int64_t size);

/// What happened so far; survives checkpoints.
struct RateLimiterCounts {
  std::int64_t inserts = 0;
  std::int64_t samples = 0;
  std::int64_t deletes = 0;  ///< evicted or used up; inserts - deletes items are present
  friend bool operator==(const RateLimiterCounts&, const RateLimiterCounts&) = default;
};

class RateLimiter {
 public:
  /// Errors: kInvalidArgument naming the option.
  static Result<RateLimiter> make(const RateLimiterOptions& options);

  /// Whether `count` (> 0) inserts or samples may happen now, as one operation.
  bool can_insert(std::int64_t count) const;
  bool can_sample(std::int64_t count) const;
  /// The greatest count up to `wanted` that may happen now.
  std::int64_t insertable(std::int64_t wanted) const;
  std::int64_t sampleable(std::int64_t wanted) const;
  /// Whether no sequence of single inserts and samples can ever admit this many at once: the window is too narrow.
  bool never_insertable(std::int64_t count) const;
  bool never_sampleable(std::int64_t count) const;

  /// "insert of 1 waits: 812 more samples (error 1201 of at most 400, samples_per_insert 8)". Empty when admitted.
  std::string insert_blocker(std::int64_t count) const;
  /// "sample of 256 waits: 488 more items (512 of min_size_to_sample 1000)", or for more inserts. Empty when admitted.
  std::string sample_blocker(std::int64_t count) const;

  void count_inserts(std::int64_t count) { counts_.inserts += count; }
  void count_samples(std::int64_t count) { counts_.samples += count; }
  void count_deletes(std::int64_t count) { counts_.deletes += count; }

  const RateLimiterOptions& options() const { return options_; }
  const RateLimiterCounts& counts() const { return counts_; }
  /// Errors: kCorrupt when a count is negative or more was deleted than inserted; nothing changed.
  Status set_counts(const RateLimiterCounts& counts);

 private:
  explicit RateLimiter(const RateLimiterOptions& options) : options_(options) {}
  std::int64_t items() const { return counts_.inserts - counts_.deletes; }

  RateLimiterOptions options_;
  RateLimiterCounts counts_;
};

}  // namespace troupe::replay
