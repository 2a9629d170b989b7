#include <troupe/run/evaluations.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace troupe::apps {
namespace {

/// What the evaluator's role of an agent or a group is called, behind its name.
constexpr std::string_view kEvaluator = "evaluator";

}  // namespace

std::string evaluated(const std::string& source) {
  for (const std::string_view ending : {kEvaluator, std::string_view(kFinalEvaluation)}) {
    if (source == ending) return "";
    if (source.ends_with(fmt::format("-{}", ending))) return source.substr(0, source.size() - ending.size() - 1);
  }
  return source;
}

std::map<int, double> first_reached(std::span<const Evaluation> evaluations, std::string_view agent,
                                    std::span<const int> thresholds) {
  std::map<int, double> reached;
  for (const int threshold : thresholds) {
    const auto first = std::ranges::find_if(evaluations, [&](const Evaluation& evaluation) {
      return evaluated(evaluation.source) == agent &&
             find_scalar(evaluation.values, kReturn).value_or(-std::numeric_limits<double>::infinity()) >= threshold;
    });
    if (first != evaluations.end()) reached.emplace(threshold, first->wall_s);
  }
  return reached;
}

}  // namespace troupe::apps
