#pragma once
// What the summary says about the evaluations of a run's environment.
#include <map>
#include <span>
#include <string>
#include <string_view>

#include <troupe/core/metrics.hpp>

namespace troupe::apps {

/// Names of the values of an environment's evaluation.
inline constexpr std::string_view kReturn = "return", kReturnStd = "return_std", kEpisodes = "episodes";

/// The wall time at which an evaluation of the agent of this name first reached each threshold by its mean return;
/// thresholds that none reached are left out. An agent without a name is the run's only one.
std::map<int, double> first_reached(std::span<const Evaluation> evaluations, std::string_view agent,
                                    std::span<const int> thresholds);
/// Who was evaluated, by the source of an evaluation: "classifier" of "classifier-evaluator", "alice" of "alice-final",
/// and nothing of the agent without a name.
std::string evaluated(const std::string& source);

/// Return thresholds of the summary: tenths of the control suite's greatest return, 1000.
inline constexpr int kReturnThresholds[] = {100, 200, 300, 400, 500, 600, 700, 800, 900};

}  // namespace troupe::apps
