#pragma once
// Line charts as SVG documents that need nothing else: what draws a run's learning curve (run/learning_curve.hpp) and
// the curves of several runs (run/comparison_page.hpp). Pure; values that are not finite are for callers to leave
// out.
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::apps {

/// Round tick positions within [low, high] (low < high), about `count` steps of 1, 2 or 5 times a power of ten apart.
std::vector<double> ticks(double low, double high, int count);

/// `text` on one line and without what markup would take for its own.
std::string escaped(std::string_view text);

struct ChartAxis {
  std::string label;
  double low = 0;
  double high = 0;  ///< not above low: as if it were low + 1

  void reach(double value);  ///< Makes the axis long enough for it.
};

struct ChartLine {
  enum class Style {
    kMain,    ///< strong
    kDashed,  ///< beside a strong one
    kThin,    ///< one of many
  };
  struct Point {
    double x = 0, y = 0;
  };
  Style style = Style::kMain;
  bool dots = false;       ///< one at each point
  std::string color = {};  ///< "#0072b2"; empty: that of a chart with one colour
  std::vector<Point> points = {};
};

/// A surface between two lines. It is cut at the lower end of the y axis.
struct ChartBand {
  struct Point {
    double x = 0, low = 0, high = 0;
  };
  std::string color = {};
  std::vector<Point> points = {};
};

/// Bands are drawn first, then lines, in their order.
struct ChartPanel {
  ChartAxis x, y;
  std::vector<ChartBand> bands = {};
  std::vector<ChartLine> lines = {};
};

/// Two panels side by side, and a line of text below them.
struct ChartRow {
  ChartPanel left, right;
  std::string note = {};
};

/// What a colour stands for; a line each, below the title.
struct ChartKey {
  std::string color;
  std::string text;
};

std::string chart_svg(const std::string& title, std::span<const ChartRow> rows, std::span<const ChartKey> keys = {});

/// The colour of the n-th of several things; they can be told apart by colour-blind people as well (Okabe and Ito).
/// They begin again after seven.
std::string_view chart_color(std::size_t n);

}  // namespace troupe::apps
