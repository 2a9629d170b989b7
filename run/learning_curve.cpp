#include <troupe/run/learning_curve.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include <troupe/core/atomic_file.hpp>
#include <troupe/run/chart.hpp>
#include <troupe/run/evaluations.hpp>

namespace troupe::apps {
namespace {

/// The control suite's returns are 0 to 1000; a curve of an untrained agent should not look like a mountain.
constexpr double kLeastReturn = 100;

ChartRow row_of_panels(const Curve& curve) {
  ChartAxis y{.label = curve.value, .low = 0, .high = curve.top};
  ChartAxis minutes{.label = "wall time (minutes)"}, steps{.label = curve.steps};
  ChartLine by_minutes{.dots = true}, by_steps{.dots = true};
  ChartBand over_minutes, over_steps;
  bool band = false;
  for (const Curve::Point& point : curve.points) {
    if (!std::isfinite(point.mean) || !std::isfinite(point.std)) continue;
    y.low = std::min(y.low, point.mean);  // the band is cut there: no return of the suite is negative
    y.high = std::max(y.high, point.mean + point.std);
    minutes.reach(point.minutes);
    steps.reach(point.steps);
    by_minutes.points.push_back({point.minutes, point.mean});
    by_steps.points.push_back({point.steps, point.mean});
    over_minutes.points.push_back({point.minutes, point.mean - point.std, point.mean + point.std});
    over_steps.points.push_back({point.steps, point.mean - point.std, point.mean + point.std});
    band |= point.std > 0;
  }
  const auto panel = [&](ChartAxis& x, ChartLine& line, ChartBand& deviation) {
    ChartPanel made{.x = std::move(x), .y = y};
    if (band) made.bands.push_back(std::move(deviation));
    made.lines.push_back(std::move(line));
    return made;
  };
  return {.left = panel(minutes, by_minutes, over_minutes),
          .right = panel(steps, by_steps, over_steps),
          .note = curve.note};
}

}  // namespace

std::string learning_curve_svg(const std::string& title, std::span<const Curve> curves) {
  std::vector<ChartRow> rows;
  for (const Curve& curve : curves) rows.push_back(row_of_panels(curve));
  return chart_svg(title, rows);
}

Status LearningCurveSink::rewind(const RunPoint& to) {
  std::erase_if(evaluations_, [&](const Evaluation& evaluation) { return beyond(evaluation, to); });
  return {};
}

Status LearningCurveSink::record(const Evaluation& evaluation) {
  evaluations_.push_back(evaluation);
  return flush();
}

std::vector<Curve> LearningCurveSink::curves() const {
  std::map<std::string, Curve> returns;                         // by agent
  std::map<std::pair<std::string, std::string>, Curve> others;  // by who was evaluated, and the value
  for (const Evaluation& evaluation : evaluations_) {
    const double minutes = evaluation.wall_s / 60;
    if (const auto mean = find_scalar(evaluation.values, kReturn)) {
      const double std = find_scalar(evaluation.values, kReturnStd).value_or(0);
      const std::string agent = evaluated(evaluation.source);
      Curve& curve = returns[agent];
      if (curve.points.empty()) {
        curve = {
            .value = (agent.empty() ? "" : agent + ": ") + "evaluation return",
            .steps = "env steps",
            .note = "line: mean over the episodes of an evaluation; band: one standard deviation above and below it",
            .top = kLeastReturn};
      }
      curve.points.push_back({minutes, static_cast<double>(evaluation.env_steps), *mean, std});
      continue;
    }
    const std::string group = evaluated(evaluation.source);
    for (const Scalar& value : evaluation.values) {
      if (value.name.starts_with("judge_")) continue;  // that is about who judges
      Curve& curve = others[{group, value.name}];
      if (curve.points.empty()) {
        std::string name = value.name;
        std::ranges::replace(name, '_', ' ');
        curve.value = fmt::format("{}: {}", group, name);
        curve.steps = fmt::format("steps of {}", group);
      }
      curve.points.push_back({minutes, static_cast<double>(evaluation.step), value.value, 0});
    }
  }
  std::vector<Curve> curves;
  for (auto& [agent, curve] : returns) curves.push_back(std::move(curve));
  for (auto& [name, curve] : others) curves.push_back(std::move(curve));
  return curves;
}

Status LearningCurveSink::flush() {
  const std::vector<Curve> all = curves();
  // Not kept by a sync: whoever records would stand still as long as the disk does, and a cut would wait for it.
  return all.empty() ? Status() : replace_file(path_.string(), learning_curve_svg(title_, all));
}

}  // namespace troupe::apps
