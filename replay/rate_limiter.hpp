#pragma once
// Paces inserts against samples, so that neither actors nor learner run ahead. The arithmetic is Reverb's
// (reverb/cc/rate_limiter.cc): with error = inserts * samples_per_insert - samples, inserts may not push the error
// above max_diff, samples not below min_diff, and nothing is sampled before min_size_to_sample items are present.
// Passive: it counts and answers; the table's owner does the waiting.
#include <cstdint>
#include <limits>
#include <string>

#include <troupe/core/error.hpp>

namespace troupe::replay {

/// The default admits every insert, and every sample once min_size_to_sample items are there
/// (reverb.rate_limiters.MinSize).
struct RateLimiterOptions {
  double samples_per_insert = 1.0;      ///< > 0
  std::int64_t min_size_to_sample = 1;  ///< items; > 0
  double min_diff = std::numeric_limits<double>::lowest();
  double max_diff = std::numeric_limits<double>::max();  ///< >= min_diff
};

/// reverb.rate_limiters.SampleToInsertRatio: the error stays within error_buffer (in samples) of where it stood when
/// min_size_to_sample was reached. Acme takes 0.1 * samples_per_insert * min_size_to_sample.
/// Errors: kInvalidArgument; a buffer below max(1, samples_per_insert) is one, as it could block both sides for ever.
Result<RateLimiterOptions> sample_to_insert_ratio(double samples_per_insert, std::int64_t min_size_to_sample,
                                                  double error_buffer);

/// reverb.rate_limiters.Queue: for FIFO tables whose items are sampled once; at most `size` items wait.
RateLimiterOptions queue(std::int64_t size);

/// Whether inserts of insert_rows and samples of sample_rows at once can never block each other for ever, which takes a
/// window max_diff - min_diff of sample_rows + insert_rows * samples_per_insert, and room for the insert that passes
/// min_size_to_sample. For whoever knows both sizes: a topology's check. Errors: kInvalidArgument, saying what is
/// needed.
Status check_batch_sizes(const RateLimiterOptions& options, std::int64_t insert_rows, std::int64_t sample_rows);

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
  /// "insert of 1 waits: 801 more samples (error would be 1201, max_diff 400)". Empty when admitted.
  std::string insert_blocker(std::int64_t count) const;
  /// "sample of 256 waits: 488 more items (512 of min_size_to_sample 1000)" or
  /// "sample of 256 waits: 8 more inserts (error would be -56, min_diff 0)". Empty when admitted.
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
