#pragma once
// What the results of a few runs say, and how far they can be trusted: after Agarwal et al. 2021, "Deep Reinforcement
// Learning at the Edge of the Statistical Precipice", and its library rliable. Used for the table and the curves of
// `troupe compare` and `troupe sweep` (run/comparison.hpp). Pure.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace troupe::apps {

/// NaN for no values.
double mean(std::span<const double> values);
/// The standard deviation of what the values are a sample of (divided by n - 1); NaN for fewer than two.
double sample_std(std::span<const double> values);

/// The mean of the middle half: of n values, n / 4 (rounded down) are left out at each end, as by
/// scipy.stats.trim_mean(values, 0.25). Of three or fewer it is the mean. NaN for no values.
double interquartile_mean(std::span<const double> values);

/// The middle value, or the mean of the two in the middle. Infinite values take part: with them for what was never
/// reached, it is infinite when fewer than half have reached it. NaN for no values.
double median(std::span<const double> values);

/// The value that a share of the sorted values lies below, between two of them by linear interpolation, as
/// numpy.percentile(values, 100 * share). share: 0 to 1; `sorted` has one value at least.
double quantile(std::span<const double> sorted, double share);

struct Interval {
  double low = 0, high = 0;
};

struct BootstrapOptions {
  int resamples = 2000;
  double confidence = 0.95;
  std::uint64_t seed = 1;  ///< of the resamples: the same values have the same interval, always
};

/// The percentile bootstrap interval of a statistic of all values, each stratum (the runs of one task) resampled by
/// itself, as rliable does. NaN for both ends when no stratum has two values: one run says nothing about others.
/// O(resamples * values), times what the statistic takes.
Interval bootstrap_interval(std::span<const std::vector<double>> strata,
                            const std::function<double(std::span<const double>)>& statistic,
                            const BootstrapOptions& options = {});

}  // namespace troupe::apps
