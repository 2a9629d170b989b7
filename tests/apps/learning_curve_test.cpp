#include <cmath>

#include <troupe/apps/run/learning_curve.hpp>

#include <troupe/apps/run/evaluations.hpp>

#include <troupe/tests/apps/test_directory.hpp>

namespace troupe::apps {
namespace {

using actors::Evaluation;

MetricRow evaluation_row(double wall_s, double mean) {
  return {.wall_s = wall_s,
          .env_steps = static_cast<std::int64_t>(wall_s * 1000),
          .learner_steps = static_cast<std::int64_t>(wall_s * 10),
          .scalars = {{"evaluator/return", mean}, {"evaluator/return_std", 5}, {"evaluator/episodes", 10}}};
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(Ticks, AreRoundAndCoverTheRange) {
  EXPECT_EQ(ticks(0, 1000, 5), (std::vector<double>{0, 200, 400, 600, 800, 1000}));
  EXPECT_EQ(ticks(0, 862, 5), (std::vector<double>{0, 200, 400, 600, 800, 1000}));
  EXPECT_EQ(ticks(-30, 90, 5), (std::vector<double>{-50, 0, 50, 100}));
  EXPECT_EQ(ticks(0, 1, 5).size(), 6u);
  EXPECT_EQ(ticks(0, 1.3e6, 5), (std::vector<double>{0, 5e5, 1e6, 1.5e6}));
}

TEST(Evaluations, AreFoundInRows) {
  const std::optional<Evaluation> evaluation = evaluation_of(evaluation_row(2, 300));
  ASSERT_TRUE(evaluation.has_value());
  EXPECT_EQ(evaluation->mean, 300);
  EXPECT_EQ(evaluation->std, 5);
  EXPECT_EQ(evaluation->episodes, 10);
  EXPECT_EQ(evaluation->env_steps, 2000);
  EXPECT_EQ(evaluation->learner_steps, 20) << "of an older version's row";
  MetricRow row = evaluation_row(2, 300);
  row.scalars.push_back({"evaluator/learner_steps", 15});
  EXPECT_EQ(evaluation_of(row)->learner_steps, 15);
  EXPECT_FALSE(evaluation_of({.scalars = {{"evaluator/return_std", 1}}}).has_value());
}

TEST(Evaluations, FirstReachedTakesTheFirstTimeOfEachThreshold) {
  const std::vector<Evaluation> evaluations = {
      {.wall_s = 1, .mean = 50}, {.wall_s = 2, .mean = 250}, {.wall_s = 3, .mean = 150}, {.wall_s = 4, .mean = 300}};
  EXPECT_EQ(first_reached(evaluations, kReturnThresholds), (std::map<int, double>{{100, 2.0}, {200, 2.0}, {300, 4.0}}));
  EXPECT_TRUE(first_reached({}, kReturnThresholds).empty());
}

TEST(LearningCurve, DrawsEveryEvaluationInBothPanels) {
  const std::vector<Evaluation> evaluations = {{.wall_s = 0, .env_steps = 0, .mean = 0, .std = 0},
                                               {.wall_s = 30, .env_steps = 500, .mean = 250, .std = 0},
                                               {.wall_s = 60, .env_steps = 1000, .mean = 500, .std = 0}};
  const std::string svg = learning_curve_svg("a <b> & c", evaluations);
  EXPECT_EQ(count(svg, "<circle"), 6u);
  EXPECT_EQ(count(svg, "<polyline"), 2u);
  EXPECT_NE(svg.find("a &lt;b> &amp; c"), std::string::npos);
  EXPECT_NE(svg.find("wall time (minutes)"), std::string::npos);
  // The panel's corners: the first point at its lower left, the last at its upper right, one halfway between.
  EXPECT_NE(svg.find("points=\"64.0,304.0 264.0,174.0 464.0,44.0 \""), std::string::npos) << svg;
}

TEST(LearningCurve, WithoutEvaluationsHasAxesOnly) {
  const std::string svg = learning_curve_svg("empty", {});
  EXPECT_EQ(count(svg, "<circle"), 0u);
  EXPECT_GT(count(svg, "<text"), 10u);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

TEST(LearningCurve, LeavesOutEvaluationsThatAreNotNumbers) {
  const std::string svg = learning_curve_svg("nan", std::vector<Evaluation>{{.mean = std::nan("")}, {.mean = 7}});
  EXPECT_EQ(count(svg, "<circle"), 2u);
  EXPECT_EQ(svg.find("nan,"), std::string::npos);
}

using LearningCurveFile = TestDirectory;

TEST_F(LearningCurveFile, IsRedrawnAfterEachEvaluationAndGoesOnAfterAResume) {
  const auto file = path() / "curve.svg";
  LearningCurveSink sink(file, "title",
                         {{.wall_s = 1, .env_steps = 10, .mean = 1}, {.wall_s = 9, .env_steps = 90, .mean = 9}});
  sink.rewind({.wall_s = 5, .env_steps = 50}).value();  // what lies beyond is done again
  sink.write({.wall_s = 5, .scalars = {{"x", 1}}}).value();
  EXPECT_FALSE(std::filesystem::exists(file));
  sink.write(evaluation_row(6, 100)).value();
  EXPECT_EQ(count(text_of(file), "<circle"), 4u);
  ASSERT_EQ(sink.evaluations().size(), 2u);
  EXPECT_EQ(sink.evaluations()[0].mean, 1);
  EXPECT_EQ(sink.evaluations()[1].mean, 100);
}

}  // namespace
}  // namespace troupe::apps
