#include <troupe/run/evaluations.hpp>

#include <cmath>

namespace troupe::apps {

std::optional<actors::Evaluation> evaluation_of(const MetricRow& row) {
  actors::Evaluation evaluation{.wall_s = row.wall_s, .env_steps = row.env_steps, .learner_steps = row.learner_steps};
  bool found = false;
  for (const Scalar& scalar : row.scalars) {
    if (scalar.name == "evaluator/return") {
      evaluation.mean = scalar.value;
      found = true;
    } else if (scalar.name == "evaluator/return_std") {
      evaluation.std = scalar.value;
    } else if (scalar.name == "evaluator/learner_steps") {
      evaluation.learner_steps = std::llround(scalar.value);
    } else if (scalar.name == "evaluator/episodes") {
      evaluation.episodes = std::llround(scalar.value);
    }
  }
  if (!found) return std::nullopt;
  return evaluation;
}

std::map<int, double> first_reached(std::span<const actors::Evaluation> evaluations, std::span<const int> thresholds) {
  std::map<int, double> reached;
  for (const int threshold : thresholds) {
    for (const actors::Evaluation& evaluation : evaluations) {
      if (evaluation.mean >= threshold) {
        reached.emplace(threshold, evaluation.wall_s);
        break;
      }
    }
  }
  return reached;
}

}  // namespace troupe::apps
