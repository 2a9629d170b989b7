#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <troupe/run/chart.hpp>

namespace troupe::apps {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Ticks, AreRoundAndWithinTheRange) {
  EXPECT_EQ(ticks(0, 1000, 5), (std::vector<double>{0, 200, 400, 600, 800, 1000}));
  EXPECT_EQ(ticks(0, 862, 5), (std::vector<double>{0, 200, 400, 600, 800}));
  EXPECT_EQ(ticks(0, 2.02, 5), (std::vector<double>{0, 0.5, 1, 1.5, 2})) << "no axis that runs to 2.5";
  EXPECT_EQ(ticks(-30, 90, 5), (std::vector<double>{0, 50}));
  EXPECT_EQ(ticks(0, 1, 5).size(), 6u);
  EXPECT_EQ(ticks(0, 1.3e6, 5), (std::vector<double>{0, 5e5, 1e6}));
}

TEST(Chart, DrawsEachSeriesInItsColourAndSaysWhatTheColoursAre) {
  ChartPanel left{.x = {.label = "env steps", .high = 100}, .y = {.label = "return", .high = 10}};
  left.bands.push_back({.color = "#111111", .points = {{0, 2, 4}, {100, 6, 8}}});
  left.lines.push_back({.style = ChartLine::Style::kThin, .color = "#222222", .points = {{0, 0}, {100, 10}}});
  left.lines.push_back({.style = ChartLine::Style::kDashed, .dots = true, .color = "#333333", .points = {{50, 5}}});
  const ChartRow row{.left = left, .right = {}, .note = "a note"};
  const std::vector<ChartKey> keys = {{"#111111", "one"}, {"#222222", "a < b"}};
  const std::string svg = chart_svg("title", {&row, 1}, keys);
  // Two keys move the row down by 40. The panel is 400 wide and 260 high, its lower left corner at (76, 354).
  EXPECT_THAT(svg,
              HasSubstr("<polyline class=\"mean thin\" points=\"76.0,354.0 476.0,94.0 \" style=\"stroke: #222222\"/>"));
  EXPECT_THAT(svg, HasSubstr("<polyline class=\"mean dashed\" points=\"276.0,224.0 \" style=\"stroke: #333333\"/>"));
  EXPECT_THAT(svg, HasSubstr("<circle class=\"dot\" cx=\"276.0\" cy=\"224.0\" r=\"2.5\" style=\"fill: #333333\"/>"));
  EXPECT_THAT(svg, HasSubstr("points=\"76.0,250.0 476.0,146.0 476.0,198.0 76.0,302.0 \" style=\"fill: #111111\"/>"));
  EXPECT_THAT(svg, HasSubstr(">a &lt; b</text>"));
  EXPECT_THAT(svg, HasSubstr(">a note</text>"));
  EXPECT_THAT(svg, HasSubstr("height=\"418\""));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

TEST(Chart, KeepsLongSentencesWhole) {
  const std::string sentence(1000, 'x');
  EXPECT_EQ(escaped(sentence), sentence);
  EXPECT_EQ(escaped("<b>&\n"), "&lt;b>&amp;\\n");
}

TEST(Chart, ColoursBeginAgainAfterSeven) {
  EXPECT_NE(chart_color(0), chart_color(6));
  EXPECT_EQ(chart_color(0), chart_color(7));
}

}  // namespace
}  // namespace troupe::apps
