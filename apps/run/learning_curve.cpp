#include <troupe/apps/run/learning_curve.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include <troupe/apps/run/evaluations.hpp>
#include <troupe/apps/run/units.hpp>
#include <troupe/core/atomic_file.hpp>

namespace troupe::apps {
namespace {

// In SVG user units (pixels at 100 %).
constexpr double kPanelWidth = 400;
constexpr double kPanelHeight = 260;
constexpr double kLeft = 64;
constexpr double kTop = 44;
constexpr double kBottom = 52;
constexpr double kGap = 40;
constexpr double kRight = 20;

struct Axis {
  double low = 0;
  double high = 1;
  std::vector<double> marks;

  double unit(double value) const { return (value - low) / (high - low); }
};

/// An axis from tick to tick around the values.
Axis make_axis(double low, double high, int count) {
  if (!(high > low)) high = low + 1;
  std::vector<double> marks = ticks(low, high, count);
  return {marks.front(), marks.back(), std::move(marks)};
}

struct Point {
  double x = 0;
  double mean = 0;
  double std = 0;
};

class Panel {
 public:
  Panel(double left, Axis x, Axis y) : left_(left), x_(std::move(x)), y_(std::move(y)) {}

  std::string draw(std::span<const Point> points, const std::string& x_label) const {
    std::string svg;
    for (const double mark : y_.marks) {
      svg += fmt::format("<line class=\"grid\" x1=\"{0:.1f}\" y1=\"{2:.1f}\" x2=\"{1:.1f}\" y2=\"{2:.1f}\"/>\n", left_,
                         left_ + kPanelWidth, to_y(mark));
      svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", left_ - 8, to_y(mark) + 4,
                         format_tick(mark));
    }
    for (const double mark : x_.marks) {
      svg += fmt::format("<line class=\"axis\" x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\"/>\n",
                         to_x(mark), kTop + kPanelHeight, kTop + kPanelHeight + 5);
      svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n", to_x(mark),
                         kTop + kPanelHeight + 20, format_tick(mark));
    }
    svg += fmt::format("<line class=\"axis\" x1=\"{0:.1f}\" y1=\"{2:.1f}\" x2=\"{1:.1f}\" y2=\"{2:.1f}\"/>\n", left_,
                       left_ + kPanelWidth, kTop + kPanelHeight);
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n", left_ + kPanelWidth / 2,
                       kTop + kPanelHeight + 42, x_label);
    if (points.empty()) return svg;

    std::string upper, lower, line;
    for (const Point& point : points) {
      line += fmt::format("{:.1f},{:.1f} ", to_x(point.x), to_y(point.mean));
      upper += fmt::format("{:.1f},{:.1f} ", to_x(point.x), to_y(point.mean + point.std));
    }
    for (auto point = points.rbegin(); point != points.rend(); ++point) {
      lower += fmt::format("{:.1f},{:.1f} ", to_x(point->x), to_y(std::max(point->mean - point->std, y_.low)));
    }
    svg += fmt::format("<polygon class=\"band\" points=\"{}{}\"/>\n", upper, lower);
    svg += fmt::format("<polyline class=\"mean\" points=\"{}\"/>\n", line);
    for (const Point& point : points) {
      svg += fmt::format("<circle class=\"dot\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\"/>\n", to_x(point.x),
                         to_y(point.mean));
    }
    return svg;
  }

 private:
  double to_x(double value) const { return left_ + x_.unit(value) * kPanelWidth; }
  double to_y(double value) const { return kTop + (1 - y_.unit(value)) * kPanelHeight; }

  double left_;
  Axis x_;
  Axis y_;
};

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
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

}  // namespace

std::vector<double> ticks(double low, double high, int count) {
  const double rough = (high - low) / count;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  const double ratio = rough / power;
  const double step = power * (ratio <= 1 ? 1 : ratio <= 2 ? 2 : ratio <= 5 ? 5 : 10);
  const auto first = static_cast<long long>(std::floor(low / step + 1e-9));
  const auto last = static_cast<long long>(std::ceil(high / step - 1e-9));
  std::vector<double> marks;
  for (long long i = first; i <= last; ++i) marks.push_back(static_cast<double>(i) * step);
  return marks;
}

std::string learning_curve_svg(const std::string& title, std::span<const actors::Evaluation> evaluations) {
  std::vector<Point> by_minutes, by_steps;
  double low = 0, high = 100;  // returns of the control suite start at 0
  for (const actors::Evaluation& e : evaluations) {
    if (!std::isfinite(e.mean) || !std::isfinite(e.std)) continue;
    by_minutes.push_back({e.wall_s / 60, e.mean, e.std});
    by_steps.push_back({static_cast<double>(e.env_steps), e.mean, e.std});
    low = std::min(low, e.mean);  // the band is cut there: no return of the suite is negative
    high = std::max(high, e.mean + e.std);
  }
  const auto x_axis = [](const std::vector<Point>& points) {
    return make_axis(0, points.empty() ? 1 : points.back().x, 5);
  };
  const Axis y = make_axis(low, high, 5);
  const double width = kLeft + kPanelWidth + kGap + kLeft + kPanelWidth + kRight;
  const double height = kTop + kPanelHeight + kBottom;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
      "{1:.0f}\">\n"
      "<style>text {{ font: 12px sans-serif; fill: #333 }} .title {{ font-size: 15px }} .grid {{ stroke: #e3e3e3 }} "
      ".axis {{ stroke: #888 }} .band {{ fill: #1f77b4; fill-opacity: 0.2 }} .mean {{ fill: none; stroke: #1f77b4; "
      "stroke-width: 2 }} .dot {{ fill: #1f77b4 }}</style>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
      "<text class=\"title\" x=\"{2:.1f}\" y=\"26\">{3}</text>\n"
      "<text x=\"18\" y=\"{4:.1f}\" text-anchor=\"middle\" transform=\"rotate(-90 18 {4:.1f})\">evaluation return"
      "</text>\n",
      width, height, kLeft, escaped(title), kTop + kPanelHeight / 2);
  svg += Panel(kLeft, x_axis(by_minutes), y).draw(by_minutes, "wall time (minutes)");
  svg += Panel(kLeft + kPanelWidth + kGap + kLeft, x_axis(by_steps), y).draw(by_steps, "env steps");
  return svg + "</svg>\n";
}

Status LearningCurveSink::rewind(const MetricRow& to) {
  std::erase_if(evaluations_, [&](const actors::Evaluation& e) {
    return beyond({e.wall_s, e.env_steps, e.learner_steps, {}}, to);
  });
  return {};
}

Status LearningCurveSink::write(const MetricRow& row) {
  const std::optional<actors::Evaluation> evaluation = evaluation_of(row);
  if (!evaluation) return {};
  evaluations_.push_back(*evaluation);
  return flush();
}

Status LearningCurveSink::flush() {
  return write_file_atomic(path_.string(), learning_curve_svg(title_, evaluations_));
}

}  // namespace troupe::apps
