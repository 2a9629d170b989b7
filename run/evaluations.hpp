#pragma once
// The evaluations of a run, in order: what the learning curve and the summary are made of.
#include <map>
#include <optional>
#include <span>
#include <vector>

#include <troupe/core/metrics.hpp>
#include <troupe/run/train.hpp>

namespace troupe::apps {

/// The evaluation that a row reports (its scalars evaluator/...), if it does. Of rows of older versions, which lack
/// evaluator/learner_steps, the row's learner steps are the evaluated ones.
std::optional<actors::Evaluation> evaluation_of(const MetricRow& row);

/// For each threshold that some evaluation's mean reached: the wall time of the first that did.
std::map<int, double> first_reached(std::span<const actors::Evaluation> evaluations, std::span<const int> thresholds);

/// Return thresholds of the summary: tenths of the control suite's greatest return, 1000.
inline constexpr int kReturnThresholds[] = {100, 200, 300, 400, 500, 600, 700, 800, 900};

}  // namespace troupe::apps
