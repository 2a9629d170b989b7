#include <troupe/run/evaluations.hpp>

#include <algorithm>
#include <limits>

namespace troupe::apps {

std::map<int, double> first_reached(std::span<const Evaluation> evaluations, std::span<const int> thresholds) {
  std::map<int, double> reached;
  for (const int threshold : thresholds) {
    const auto first = std::ranges::find_if(evaluations, [&](const Evaluation& evaluation) {
      return find_scalar(evaluation.values, kReturn).value_or(-std::numeric_limits<double>::infinity()) >= threshold;
    });
    if (first != evaluations.end()) reached.emplace(threshold, first->wall_s);
  }
  return reached;
}

}  // namespace troupe::apps
