#pragma once
// Pearson's test that counts follow expected probabilities. Seeds are fixed, so a test passes or fails for good; the
// bound is the value that a right sampler exceeds once in about 10^5 seeds.
#include <cmath>
#include <cstdint>
#include <span>

namespace troupe::replay {

/// sum (count - expected)^2 / expected over cells of positive probability; infinite if an impossible cell was hit.
inline double chi_squared(std::span<const std::int64_t> counts, std::span<const double> probabilities) {
  double total = 0;
  for (std::int64_t count : counts) total += static_cast<double>(count);
  double statistic = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double expected = total * probabilities[i];
    const double difference = static_cast<double>(counts[i]) - expected;
    if (expected > 0) statistic += difference * difference / expected;
    if (expected == 0 && counts[i] > 0) return INFINITY;
  }
  return statistic;
}

/// Upper 1e-5 quantile for `freedom` degrees of freedom (Wilson and Hilferty 1931; 4.265 is the normal's quantile).
inline double chi_squared_bound(double freedom) {
  const double spread = 2.0 / (9.0 * freedom);
  return freedom * std::pow(1.0 - spread + 4.265 * std::sqrt(spread), 3);
}

}  // namespace troupe::replay
