#pragma once
// What an evaluation of a policy says: made by the metrics role of the episodes that the evaluator has played
// (actors/roles/metrics_actor.hpp), and once more when a run ends (run/evaluate_part.hpp).
#include <cstdint>
#include <span>

#include <troupe/core/metrics.hpp>

namespace troupe::actors {

/// The returns of one evaluation, in numbers.
struct Evaluation {
  double wall_s = 0;  ///< when it ended
  std::int64_t env_steps = 0;
  std::int64_t learner_steps = 0;  ///< version of the parameters that were evaluated
  double mean = 0;
  double std = 0;  ///< population standard deviation over the episodes
  std::int64_t episodes = 0;
};

/// Mean and population standard deviation of the returns; wall_s and counts are the caller's.
Evaluation summarize(std::span<const double> returns);
/// The row that an evaluation is reported as: evaluator/return, evaluator/return_std, evaluator/episodes, and
/// evaluator/learner_steps, which may be fewer than the run's, `learner_steps`, when the evaluation is over.
MetricRow evaluation_row(const Evaluation& evaluation, std::int64_t learner_steps);

}  // namespace troupe::actors
