#pragma once
// What the summary says of the evaluations of a run's environment.
#include <map>
#include <span>
#include <string_view>

#include <troupe/core/metrics.hpp>

namespace troupe::apps {

/// Names of the values of an environment's evaluation.
inline constexpr std::string_view kReturn = "return", kReturnStd = "return_std", kEpisodes = "episodes";

/// For each threshold that the mean return of some evaluation reached: the wall time of the first that did.
std::map<int, double> first_reached(std::span<const Evaluation> evaluations, std::span<const int> thresholds);

/// Return thresholds of the summary: tenths of the control suite's greatest return, 1000.
inline constexpr int kReturnThresholds[] = {100, 200, 300, 400, 500, 600, 700, 800, 900};

}  // namespace troupe::apps
