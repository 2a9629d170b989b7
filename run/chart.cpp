#include <troupe/run/chart.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include <troupe/core/text.hpp>
#include <troupe/run/units.hpp>

namespace troupe::apps {
namespace {

// In SVG user units (pixels at 100 %).
constexpr double kPanelWidth = 400;
constexpr double kPanelHeight = 260;
constexpr double kTitle = 40;
constexpr double kKey = 20;
constexpr double kLeft = 76;
constexpr double kTop = 14;     // above a panel, in its row
constexpr double kBottom = 64;  // below it
constexpr double kRight = 28;
constexpr double kRow = kTop + kPanelHeight + kBottom;
constexpr double kWidth = 2 * (kLeft + kPanelWidth) + kRight;
constexpr int kTicks = 5;
constexpr std::size_t kTextBytesMax = 4096;

class DrawnPanel {
 public:
  DrawnPanel(const ChartPanel& panel, double left, double top) : panel_(panel), left_(left), top_(top) {
    for (ChartAxis* const axis : {&panel_.x, &panel_.y}) {
      if (!(axis->high > axis->low)) axis->high = axis->low + 1;
    }
  }

  std::string svg() const {
    std::string svg = axes();
    for (const ChartBand& band : panel_.bands) svg += draw(band);
    for (const ChartLine& line : panel_.lines) svg += draw(line);
    return svg;
  }

 private:
  double to_x(double value) const {
    return left_ + (value - panel_.x.low) / (panel_.x.high - panel_.x.low) * kPanelWidth;
  }
  double to_y(double value) const {
    return top_ + (1 - (value - panel_.y.low) / (panel_.y.high - panel_.y.low)) * kPanelHeight;
  }

  std::string axes() const {
    std::string svg;
    const double bottom = top_ + kPanelHeight;
    for (const double mark : ticks(panel_.y.low, panel_.y.high, kTicks)) {
      svg += fmt::format("<line class=\"grid\" x1=\"{0:.1f}\" y1=\"{2:.1f}\" x2=\"{1:.1f}\" y2=\"{2:.1f}\"/>\n", left_,
                         left_ + kPanelWidth, to_y(mark));
      svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", left_ - 8, to_y(mark) + 4,
                         format_tick(mark));
    }
    for (const double mark : ticks(panel_.x.low, panel_.x.high, kTicks)) {
      svg += fmt::format("<line class=\"axis\" x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\"/>\n",
                         to_x(mark), bottom, bottom + 5);
      svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n", to_x(mark), bottom + 20,
                         format_tick(mark));
    }
    svg += fmt::format("<polyline class=\"axis\" points=\"{0:.1f},{1:.1f} {0:.1f},{2:.1f} {3:.1f},{2:.1f}\"/>\n", left_,
                       top_, bottom, left_ + kPanelWidth);
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n", left_ + kPanelWidth / 2,
                       bottom + 40, escaped(panel_.x.label));
    svg += fmt::format(
        "<text x=\"{0:.1f}\" y=\"{1:.1f}\" text-anchor=\"middle\" transform=\"rotate(-90 {0:.1f} {1:.1f})\">"
        "{2}</text>\n",
        left_ - 56, top_ + kPanelHeight / 2, escaped(panel_.y.label));
    return svg;
  }

  std::string draw(const ChartBand& band) const {
    if (band.points.empty()) return "";
    std::string points;
    for (const ChartBand::Point& point : band.points) {
      points += fmt::format("{:.1f},{:.1f} ", to_x(point.x), to_y(point.high));
    }
    for (auto point = band.points.rbegin(); point != band.points.rend(); ++point) {
      points += fmt::format("{:.1f},{:.1f} ", to_x(point->x), to_y(std::max(point->low, panel_.y.low)));
    }
    return fmt::format("<polygon class=\"band\" points=\"{}\"{}/>\n", points, style("fill", band.color));
  }

  std::string draw(const ChartLine& line) const {
    if (line.points.empty()) return "";
    std::string points, dots;
    for (const ChartLine::Point& point : line.points) {
      const double x = to_x(point.x), y = to_y(point.y);
      points += fmt::format("{:.1f},{:.1f} ", x, y);
      if (line.dots) {
        dots += fmt::format("<circle class=\"dot\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\"{}/>\n", x, y,
                            style("fill", line.color));
      }
    }
    constexpr std::array kClasses = {"mean", "mean dashed", "mean thin"};
    return fmt::format("<polyline class=\"{}\" points=\"{}\"{}/>\n", kClasses[static_cast<std::size_t>(line.style)],
                       points, style("stroke", line.color)) +
           dots;
  }

  /// A class's own colour is stronger than an attribute, and weaker than a style.
  static std::string style(std::string_view property, std::string_view color) {
    return color.empty() ? "" : fmt::format(" style=\"{}: {}\"", property, color);
  }

  ChartPanel panel_;
  double left_, top_;
};

std::string draw_row(const ChartRow& row, double top) {
  std::string svg = DrawnPanel(row.left, kLeft, top + kTop).svg();
  svg += DrawnPanel(row.right, kLeft + kPanelWidth + kLeft, top + kTop).svg();
  if (!row.note.empty()) {
    svg += fmt::format("<text class=\"note\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", kLeft,
                       top + kTop + kPanelHeight + 58, escaped(row.note));
  }
  return svg;
}

}  // namespace

void ChartAxis::reach(double value) {
  low = std::min(low, value);
  high = std::max(high, value);
}

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

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : printable(text, kTextBytesMax)) {
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

std::string_view chart_color(std::size_t n) {
  constexpr std::array<std::string_view, 7> kColors = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                       "#e69f00", "#56b4e9", "#000000"};
  return kColors[n % kColors.size()];
}

std::string chart_svg(const std::string& title, std::span<const ChartRow> rows, std::span<const ChartKey> keys) {
  const double head = kTitle + kKey * static_cast<double>(keys.size());
  const double height = head + kRow * static_cast<double>(rows.size());
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
      "{1:.0f}\">\n"
      "<style>text {{ font: 12px sans-serif; fill: #333 }} .title {{ font-size: 15px }} .note {{ fill: #777 }} "
      ".grid {{ stroke: #e3e3e3 }} .axis {{ fill: none; stroke: #888 }} .band {{ fill: #1f77b4; fill-opacity: 0.2 }} "
      ".mean {{ fill: none; stroke: #1f77b4; stroke-width: 2 }} .dashed {{ stroke-width: 1.5; stroke-dasharray: 6 3 }} "
      ".thin {{ stroke-width: 0.7; stroke-opacity: 0.5 }} .dot {{ fill: #1f77b4 }}</style>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
      "<text class=\"title\" x=\"{2:.1f}\" y=\"26\">{3}</text>\n",
      kWidth, height, kLeft, escaped(title));
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const double y = kTitle + kKey * static_cast<double>(i);
    svg += fmt::format("<rect x=\"{0:.1f}\" y=\"{1:.1f}\" width=\"18\" height=\"4\" fill=\"{2}\"/>\n", kLeft, y + 5,
                       keys[i].color);
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", kLeft + 26, y + 11, escaped(keys[i].text));
  }
  for (std::size_t i = 0; i < rows.size(); ++i) svg += draw_row(rows[i], head + kRow * static_cast<double>(i));
  return svg + "</svg>\n";
}

}  // namespace troupe::apps
