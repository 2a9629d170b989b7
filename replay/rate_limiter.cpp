#include <troupe/replay/rate_limiter.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace troupe::replay {
namespace {

/// Greatest n in 0..wanted with admits(n), where admits holds for a prefix of 1, 2, 3...
template <typename Predicate>
std::int64_t greatest(std::int64_t wanted, Predicate admits) {
  std::int64_t admitted = 0;
  std::int64_t refused = wanted + 1;
  while (refused - admitted > 1) {
    const std::int64_t middle = admitted + (refused - admitted) / 2;
    (admits(middle) ? admitted : refused) = middle;
  }
  return admitted;
}

/// `estimate` corrected for rounding: the least n >= 1 with admits(n), where admits holds from some n on.
template <typename Predicate>
std::int64_t least(double estimate, Predicate admits) {
  auto n = std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(estimate)));
  while (!admits(n)) ++n;
  while (n > 1 && admits(n - 1)) --n;
  return n;
}

}  // namespace

Result<RateLimiterOptions> sample_to_insert_ratio(double samples_per_insert, std::int64_t min_size_to_sample,
                                                  double error_buffer) {
  const double least_buffer = std::max(1.0, samples_per_insert);
  if (!(error_buffer >= least_buffer)) {
    return Error{Code::kInvalidArgument, fmt::format("rate limiter: error_buffer {} < max(1, samples_per_insert) = {}",
                                                     error_buffer, least_buffer)};
  }
  const double offset = samples_per_insert * static_cast<double>(min_size_to_sample);
  const RateLimiterOptions options{.samples_per_insert = samples_per_insert,
                                   .min_size_to_sample = min_size_to_sample,
                                   .min_diff = offset - error_buffer,
                                   .max_diff = offset + error_buffer};
  TROUPE_TRY(RateLimiter::make(options));
  return options;
}

RateLimiterOptions queue(std::int64_t size) { return {.min_diff = 0, .max_diff = static_cast<double>(size)}; }

Status check_batch_sizes(const RateLimiterOptions& options, std::int64_t insert_rows, std::int64_t sample_rows) {
  // Both sides block when max_diff - insert_rows * spi < error < min_diff + sample_rows: the interval must be empty.
  const double insert_error = static_cast<double>(insert_rows) * options.samples_per_insert;
  const double needed = static_cast<double>(sample_rows) + insert_error;
  const double window = options.max_diff - options.min_diff;
  if (!(window >= needed)) {
    return Error{Code::kInvalidArgument,
                 fmt::format("rate limiter: window max_diff - min_diff is {}, but samples of {} and inserts of {} at "
                             "once need {} (sample_rows + insert_rows * samples_per_insert) or could block each other "
                             "for ever",
                             window, sample_rows, insert_rows, needed)};
  }
  // One item short of the minimum nothing can be sampled, so an insert that passes the minimum must be within max_diff.
  const double passing =
      static_cast<double>(options.min_size_to_sample - 1) * options.samples_per_insert + insert_error;
  if (insert_rows > 1 && options.max_diff < passing) {
    return Error{Code::kInvalidArgument,
                 fmt::format("rate limiter: max_diff is {}, but inserts of {} at once need {} to pass "
                             "min_size_to_sample {}",
                             options.max_diff, insert_rows, passing, options.min_size_to_sample)};
  }
  return {};
}

Result<RateLimiter> RateLimiter::make(const RateLimiterOptions& options) {
  if (!(options.samples_per_insert > 0) || !std::isfinite(options.samples_per_insert)) {
    return Error{Code::kInvalidArgument, fmt::format("rate limiter: samples_per_insert is {}, expected a number > 0",
                                                     options.samples_per_insert)};
  }
  if (options.min_size_to_sample < 1) {
    return Error{Code::kInvalidArgument,
                 fmt::format("rate limiter: min_size_to_sample is {}, expected >= 1", options.min_size_to_sample)};
  }
  if (!(options.min_diff <= options.max_diff)) {
    return Error{Code::kInvalidArgument,
                 fmt::format("rate limiter: min_diff {} > max_diff {}", options.min_diff, options.max_diff)};
  }
  const double at_min_size = options.samples_per_insert * static_cast<double>(options.min_size_to_sample);
  if (options.min_diff > at_min_size && options.max_diff < at_min_size + options.samples_per_insert) {
    return Error{Code::kInvalidArgument,
                 fmt::format("rate limiter: window {}..{} does not hold samples_per_insert * min_size_to_sample = {}: "
                             "nothing could move once min_size_to_sample items are in",
                             options.min_diff, options.max_diff, at_min_size)};
  }
  return RateLimiter(options);
}

bool RateLimiter::can_insert(std::int64_t count) const {
  if (items() + count <= options_.min_size_to_sample) return true;
  const double error =
      static_cast<double>(counts_.inserts + count) * options_.samples_per_insert - static_cast<double>(counts_.samples);
  return error <= options_.max_diff;
}

bool RateLimiter::can_sample(std::int64_t count) const {
  if (items() < options_.min_size_to_sample) return false;
  const double error =
      static_cast<double>(counts_.inserts) * options_.samples_per_insert - static_cast<double>(counts_.samples + count);
  return error >= options_.min_diff;
}

std::int64_t RateLimiter::insertable(std::int64_t wanted) const {
  return greatest(wanted, [this](std::int64_t n) { return can_insert(n); });
}

std::int64_t RateLimiter::sampleable(std::int64_t wanted) const {
  return greatest(wanted, [this](std::int64_t n) { return can_sample(n); });
}

std::string RateLimiter::insert_blocker(std::int64_t count) const {
  if (can_insert(count)) return {};
  const double error =
      static_cast<double>(counts_.inserts + count) * options_.samples_per_insert - static_cast<double>(counts_.samples);
  const std::int64_t missing = least(error - options_.max_diff, [&](std::int64_t n) {
    RateLimiter later = *this;
    later.count_samples(n);
    return later.can_insert(count);
  });
  return fmt::format("insert of {} waits: {} more samples (error would be {}, max_diff {})", count, missing, error,
                     options_.max_diff);
}

std::string RateLimiter::sample_blocker(std::int64_t count) const {
  if (can_sample(count)) return {};
  if (items() < options_.min_size_to_sample) {
    return fmt::format("sample of {} waits: {} more items ({} of min_size_to_sample {})", count,
                       options_.min_size_to_sample - items(), items(), options_.min_size_to_sample);
  }
  const double error =
      static_cast<double>(counts_.inserts) * options_.samples_per_insert - static_cast<double>(counts_.samples + count);
  const std::int64_t missing = least((options_.min_diff - error) / options_.samples_per_insert, [&](std::int64_t n) {
    RateLimiter later = *this;
    later.count_inserts(n);
    return later.can_sample(count);
  });
  return fmt::format("sample of {} waits: {} more inserts (error would be {}, min_diff {})", count, missing, error,
                     options_.min_diff);
}

Status RateLimiter::set_counts(const RateLimiterCounts& counts) {
  if (counts.inserts < 0 || counts.samples < 0 || counts.deletes < 0 || counts.deletes > counts.inserts) {
    return Error{Code::kCorrupt,
                 fmt::format("rate limiter: counts of {} inserts, {} samples, {} deletes are impossible",
                             counts.inserts, counts.samples, counts.deletes)};
  }
  counts_ = counts;
  return {};
}

}  // namespace troupe::replay
