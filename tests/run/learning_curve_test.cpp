#include <cmath>

#include <troupe/run/learning_curve.hpp>

#include <troupe/run/evaluations.hpp>

#include <troupe/tests/apps/test_directory.hpp>

namespace troupe::apps {
namespace {

Evaluation of_returns(double wall_s, double mean) {
  return {.wall_s = wall_s,
          .source = "evaluator",
          .step = static_cast<std::int64_t>(wall_s * 10),
          .env_steps = static_cast<std::int64_t>(wall_s * 1000),
          .values = {{"return", mean}, {"return_std", 5}, {"episodes", 10}}};
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(Evaluations, FirstReachedTakesTheFirstTimeOfEachThreshold) {
  const std::vector<Evaluation> evaluations = {of_returns(1, 50),
                                               of_returns(2, 250),
                                               of_returns(3, 150),
                                               {.source = "net-evaluator", .values = {{"loss", 900}}},
                                               {.wall_s = 3, .source = "bob-final", .values = {{"return", 900}}},
                                               of_returns(4, 300)};
  EXPECT_EQ(first_reached(evaluations, "", kReturnThresholds),
            (std::map<int, double>{{100, 2.0}, {200, 2.0}, {300, 4.0}}));
  EXPECT_TRUE(first_reached({}, "", kReturnThresholds).empty());
}

Curve curve_of(std::vector<Curve::Point> points) {
  return {.value = "evaluation return",
          .steps = "env steps",
          .note = "band: what",
          .top = 100,
          .points = std::move(points)};
}

TEST(LearningCurve, DrawsEveryEvaluationInBothPanelsAndSaysWhatIsWhat) {
  const Curve curve = curve_of({{0, 0, 0, 0}, {0.5, 500, 250, 0}, {1, 1000, 500, 10}});
  const std::string svg = learning_curve_svg("a <b> & c", {&curve, 1});
  EXPECT_EQ(count(svg, "<circle"), 6u);
  EXPECT_EQ(count(svg, "class=\"mean\""), 2u);
  EXPECT_EQ(count(svg, "class=\"band\""), 2u);
  EXPECT_NE(svg.find("a &lt;b> &amp; c"), std::string::npos);
  EXPECT_EQ(count(svg, ">wall time (minutes)<"), 1u);
  EXPECT_EQ(count(svg, ">env steps<"), 1u);
  EXPECT_EQ(count(svg, ">evaluation return<"), 2u) << "each panel has its own";
  EXPECT_EQ(count(svg, ">band: what<"), 1u);
  // The first point is at the panel's lower left corner, the last at its right edge.
  EXPECT_NE(svg.find("class=\"mean\" points=\"76.0,314.0 276.0,"), std::string::npos) << svg;
  EXPECT_NE(svg.find(" 476.0,"), std::string::npos) << svg;
}

TEST(LearningCurve, HasARowForEachValueAndNoBandWithoutADeviation) {
  const std::vector<Curve> curves = {curve_of({{0, 0, 0, 0}, {1, 10, 5, 0}}),
                                     {.value = "net: accuracy", .steps = "steps of net", .note = ""}};
  const std::string svg = learning_curve_svg("two", curves);
  EXPECT_EQ(count(svg, "class=\"band\""), 0u);
  EXPECT_EQ(count(svg, ">wall time (minutes)<"), 2u);
  EXPECT_EQ(count(svg, ">net: accuracy<"), 2u);
}

TEST(LearningCurve, WithoutEvaluationsHasAxesOnly) {
  const Curve curve = curve_of({});
  const std::string svg = learning_curve_svg("empty", {&curve, 1});
  EXPECT_EQ(count(svg, "<circle"), 0u);
  EXPECT_GT(count(svg, "<text"), 10u);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

TEST(LearningCurve, LeavesOutEvaluationsThatAreNotNumbers) {
  const Curve curve = curve_of({{0, 0, std::nan(""), 0}, {0, 0, 7, 0}});
  const std::string svg = learning_curve_svg("nan", {&curve, 1});
  EXPECT_EQ(count(svg, "<circle"), 2u);
  EXPECT_EQ(svg.find("nan,"), std::string::npos);
}

using LearningCurveFile = TestDirectory;

TEST_F(LearningCurveFile, IsRedrawnAfterEachEvaluationAndGoesOnAfterAResume) {
  const auto file = path() / "curve.svg";
  LearningCurveSink sink(file, "title", {of_returns(1, 1), of_returns(9, 9)});
  sink.rewind({.wall_s = 5, .env_steps = 5000, .evaluated_steps = {{"evaluator", 50}}}).value();  // done again
  sink.write({.wall_s = 5, .scalars = {{"x", 1}}}).value();
  EXPECT_FALSE(std::filesystem::exists(file));
  sink.record(of_returns(6, 100)).value();
  EXPECT_EQ(count(text_of(file), "<circle"), 4u);
  ASSERT_EQ(sink.evaluations().size(), 2u);
  EXPECT_EQ(sink.evaluations()[0].wall_s, 1);
  EXPECT_EQ(sink.evaluations()[1].wall_s, 6);
}

TEST_F(LearningCurveFile, HasWhatTheEvaluatorsOfGroupsFound) {
  const auto file = path() / "curve.svg";
  LearningCurveSink sink(file, "gan, net");
  const auto found = [](double wall_s, std::int64_t step, double distance) {
    return Evaluation{.wall_s = wall_s,
                      .source = "gan-evaluator",
                      .step = step,
                      .values = {{"frechet_distance", distance}, {"judge_accuracy", 0.9}}};
  };
  for (const Evaluation& one : {found(1, 100, 300), found(3, 200, 150), found(4, 300, 120)}) sink.record(one).value();
  sink.record({.wall_s = 4, .source = "net-evaluator", .step = 100, .values = {{"accuracy", 0.5}}}).value();
  const std::string svg = text_of(file);
  EXPECT_EQ(count(svg, "<circle"), 2 * 3 + 2 * 1u);
  EXPECT_EQ(count(svg, ">gan: frechet distance<"), 2u);
  EXPECT_EQ(count(svg, ">steps of gan<"), 1u);
  EXPECT_EQ(count(svg, ">net: accuracy<"), 2u);
  EXPECT_EQ(svg.find("return"), std::string::npos) << "there is no environment";
  EXPECT_EQ(svg.find("judge"), std::string::npos);
  sink.rewind({.wall_s = 3.5, .evaluated_steps = {{"gan-evaluator", 250}}}).value();
  sink.flush().value();
  EXPECT_EQ(count(text_of(file), "<circle"), 2 * 2 + 2 * 1u);
}

}  // namespace
}  // namespace troupe::apps
