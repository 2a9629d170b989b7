#include <troupe/run/learning_curve.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include <troupe/core/atomic_file.hpp>
#include <troupe/core/text.hpp>
#include <troupe/run/evaluations.hpp>
#include <troupe/run/units.hpp>

namespace troupe::apps {
namespace {

// In SVG user units (pixels at 100 %).
constexpr double kPanelWidth = 400;
constexpr double kPanelHeight = 260;
constexpr double kTitle = 40;
constexpr double kLeft = 76;
constexpr double kTop = 14;     // above a panel, in its row
constexpr double kBottom = 64;  // below it
constexpr double kRight = 28;
constexpr double kRow = kTop + kPanelHeight + kBottom;
constexpr double kWidth = 2 * (kLeft + kPanelWidth) + kRight;
constexpr int kTicks = 5;
/// The control suite's returns are 0 to 1000; a curve of an untrained agent should not look like a mountain.
constexpr double kLeastReturn = 100;

struct Axis {
  double low = 0;
  double high = 1;

  double unit(double value) const { return (value - low) / (high - low); }
};

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      out += c;
    }
  }
  return out;
}

class Panel {
 public:
  Panel(double left, double top, Axis x, Axis y) : left_(left), top_(top), x_(x), y_(y) {}

  std::string axes(const std::string& x_label, const std::string& y_label) const {
    std::string svg;
    const double bottom = top_ + kPanelHeight;
    for (const double mark : ticks(y_.low, y_.high, kTicks)) {
      svg += fmt::format("<line class=\"grid\" x1=\"{0:.1f}\" y1=\"{2:.1f}\" x2=\"{1:.1f}\" y2=\"{2:.1f}\"/>\n", left_,
                         left_ + kPanelWidth, to_y(mark));
      svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", left_ - 8, to_y(mark) + 4,
                         format_tick(mark));
    }
    for (const double mark : ticks(x_.low, x_.high, kTicks)) {
      svg += fmt::format("<line class=\"axis\" x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\"/>\n",
                         to_x(mark), bottom, bottom + 5);
      svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n", to_x(mark), bottom + 20,
                         format_tick(mark));
    }
    svg += fmt::format("<polyline class=\"axis\" points=\"{0:.1f},{1:.1f} {0:.1f},{2:.1f} {3:.1f},{2:.1f}\"/>\n", left_,
                       top_, bottom, left_ + kPanelWidth);
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n", left_ + kPanelWidth / 2,
                       bottom + 40, escaped(x_label));
    svg += fmt::format(
        "<text x=\"{0:.1f}\" y=\"{1:.1f}\" text-anchor=\"middle\" transform=\"rotate(-90 {0:.1f} {1:.1f})\">"
        "{2}</text>\n",
        left_ - 56, top_ + kPanelHeight / 2, escaped(y_label));
    return svg;
  }

  std::string draw(std::span<const Curve::Point> points, double Curve::Point::*x) const {
    std::string upper, lower, line, dots;
    bool band = false;
    for (const Curve::Point& point : points) {
      const double at = to_x(point.*x);
      line += fmt::format("{:.1f},{:.1f} ", at, to_y(point.mean));
      upper += fmt::format("{:.1f},{:.1f} ", at, to_y(point.mean + point.std));
      lower.insert(0, fmt::format("{:.1f},{:.1f} ", at, to_y(std::max(point.mean - point.std, y_.low))));
      dots += fmt::format("<circle class=\"dot\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\"/>\n", at, to_y(point.mean));
      band |= point.std > 0;
    }
    if (points.empty()) return "";
    return (band ? fmt::format("<polygon class=\"band\" points=\"{}{}\"/>\n", upper, lower) : "") +
           fmt::format("<polyline class=\"mean\" points=\"{}\"/>\n", line) + dots;
  }

 private:
  double to_x(double value) const { return left_ + x_.unit(value) * kPanelWidth; }
  double to_y(double value) const { return top_ + (1 - y_.unit(value)) * kPanelHeight; }

  double left_, top_;
  Axis x_, y_;
};

std::string row_of_panels(const Curve& curve, double top) {
  std::vector<Curve::Point> points;
  Axis y{0, curve.top};
  Axis minutes{0, 0}, steps{0, 0};
  for (const Curve::Point& point : curve.points) {
    if (!std::isfinite(point.mean) || !std::isfinite(point.std)) continue;
    points.push_back(point);
    y.low = std::min(y.low, point.mean);  // the band is cut there: no return of the suite is negative
    y.high = std::max(y.high, point.mean + point.std);
    minutes.high = std::max(minutes.high, point.minutes);
    steps.high = std::max(steps.high, point.steps);
  }
  for (Axis* const axis : {&minutes, &steps, &y}) {
    if (!(axis->high > axis->low)) axis->high = axis->low + 1;
  }
  const double right = kLeft + kPanelWidth + kLeft;
  const Panel by_minutes(kLeft, top + kTop, minutes, y), by_steps(right, top + kTop, steps, y);
  std::string svg =
      by_minutes.axes("wall time (minutes)", curve.value) + by_minutes.draw(points, &Curve::Point::minutes);
  svg += by_steps.axes(curve.steps, curve.value) + by_steps.draw(points, &Curve::Point::steps);
  if (!curve.note.empty()) {
    svg += fmt::format("<text class=\"note\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", kLeft,
                       top + kTop + kPanelHeight + 58, escaped(curve.note));
  }
  return svg;
}

}  // namespace

std::vector<double> ticks(double low, double high, int count) {
  const double rough = (high - low) / count;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  const double ratio = rough / power;
  const double step = power * (ratio <= 1 ? 1 : ratio <= 2 ? 2 : ratio <= 5 ? 5 : 10);
  const auto first = static_cast<long long>(std::ceil(low / step - 1e-9));
  const auto last = static_cast<long long>(std::floor(high / step + 1e-9));
  std::vector<double> marks;
  for (long long i = first; i <= last; ++i) marks.push_back(static_cast<double>(i) * step);
  return marks;
}

std::string learning_curve_svg(const std::string& title, std::span<const Curve> curves) {
  const double height = kTitle + kRow * static_cast<double>(curves.size());
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
      "{1:.0f}\">\n"
      "<style>text {{ font: 12px sans-serif; fill: #333 }} .title {{ font-size: 15px }} .note {{ fill: #777 }} "
      ".grid {{ stroke: #e3e3e3 }} .axis {{ fill: none; stroke: #888 }} .band {{ fill: #1f77b4; fill-opacity: 0.2 }} "
      ".mean {{ fill: none; stroke: #1f77b4; stroke-width: 2 }} .dot {{ fill: #1f77b4 }}</style>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
      "<text class=\"title\" x=\"{2:.1f}\" y=\"26\">{3}</text>\n",
      kWidth, height, kLeft, escaped(title));
  for (std::size_t i = 0; i < curves.size(); ++i) {
    svg += row_of_panels(curves[i], kTitle + kRow * static_cast<double>(i));
  }
  return svg + "</svg>\n";
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
  return all.empty() ? Status() : write_file_atomic(path_.string(), learning_curve_svg(title_, all));
}

}  // namespace troupe::apps
