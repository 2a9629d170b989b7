#include <troupe/run/statistics.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <troupe/core/rng.hpp>

namespace troupe::apps {
namespace {

constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();

std::vector<double> sorted(std::span<const double> values) {
  std::vector<double> copy(values.begin(), values.end());
  std::ranges::sort(copy);
  return copy;
}

}  // namespace

double mean(std::span<const double> values) {
  if (values.empty()) return kUndefined;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double sample_std(std::span<const double> values) {
  if (values.size() < 2) return kUndefined;
  const double middle = mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - middle) * (value - middle);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

double interquartile_mean(std::span<const double> values) {
  const std::vector<double> all = sorted(values);
  const std::size_t cut = all.size() / 4;
  return mean(std::span(all).subspan(cut, all.size() - 2 * cut));
}

double median(std::span<const double> values) {
  if (values.empty()) return kUndefined;
  const std::vector<double> all = sorted(values);
  const double low = all[(all.size() - 1) / 2], high = all[all.size() / 2];
  return low == high ? low : (low + high) / 2;
}

double quantile(std::span<const double> sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

Interval bootstrap_interval(std::span<const std::vector<double>> strata,
                            const std::function<double(std::span<const double>)>& statistic,
                            const BootstrapOptions& options) {
  if (std::ranges::none_of(strata, [](const auto& stratum) { return stratum.size() > 1; })) return {kUndefined, kUndefined};
  Rng rng(options.seed);
  std::vector<double> found, resample;
  for (int i = 0; i < options.resamples; ++i) {
    resample.clear();
    for (const std::vector<double>& stratum : strata) {
      for (std::size_t n = 0; n < stratum.size(); ++n) resample.push_back(stratum[rng.below(stratum.size())]);
    }
    found.push_back(statistic(resample));
  }
  std::ranges::sort(found);
  const double tail = (1 - options.confidence) / 2;
  return {quantile(found, tail), quantile(found, 1 - tail)};
}

}  // namespace troupe::apps
