// Choices and broadcasting where gradients cannot be compared with differences: ties, NaN, indices, shapes that do not
// fit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include <troupe/learner/engine/program.hpp>
#include <troupe/learner/ops/broadcast.hpp>
#include <troupe/learner/ops/choice.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/math.hpp>
#include <troupe/learner/ops/reduce.hpp>

namespace troupe::learner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

struct Computed {
  std::vector<float> value, of_a, of_b;
};
/// What f makes of two inputs [rows], and the gradients of its sum.
Computed computed(const std::function<Var(Var, Var)>& f, const std::vector<float>& a, const std::vector<float>& b) {
  Graph graph(static_cast<std::int64_t>(a.size()));
  const Var x = graph.input("a", {}), y = graph.input("b", {}), value = f(x, y);
  const std::vector<Var> gradients = graph.gradients(sum(value), std::array{x, y});
  graph.output("value", value);
  graph.output("of_a", gradients[0]);
  graph.output("of_b", gradients[1]);
  const auto program = Program::compile(graph, {}).value();
  program->bind("a", std::span<const float>(a)).value();
  program->bind("b", std::span<const float>(b)).value();
  program->run().value();
  const auto of = [&](const char* name) {
    return std::vector<float>(program->output(name).begin(), program->output(name).end());
  };
  return {of("value"), of("of_a"), of("of_b")};
}

TEST(Choice, SharesTheGradientBetweenEqualValues) {
  const Computed least = computed(minimum, {1, 2, 3}, {2, 2, 1});
  EXPECT_THAT(least.value, ElementsAre(1, 2, 1));
  EXPECT_THAT(least.of_a, ElementsAre(1, 0.5, 0));
  EXPECT_THAT(least.of_b, ElementsAre(0, 0.5, 1));
  const Computed largest = computed(maximum, {1, 2, 3}, {2, 2, 1});
  EXPECT_THAT(largest.value, ElementsAre(2, 2, 3));
  EXPECT_THAT(largest.of_a, ElementsAre(0, 0.5, 1));
}

TEST(Greatest, IsThatOfAllStripesAndOfRowsThatAreData) {
  for (const int stripes : {1, 3}) {
    Graph graph(5);
    const Var x = graph.input("x", {2});
    graph.output("greatest", add(greatest(x), graph.constant({}, {0})));
    const auto program = Program::compile(graph, {.stripes = stripes}).value();
    const Signature columns{{"x", DType::kF32, Shape{2}}};
    const auto of = [&](std::int64_t rows, std::vector<float> values) {
      values.resize(static_cast<std::size_t>(rows) * 2);
      BatchView batch{&columns, rows, {std::as_bytes(std::span(values))}};
      program->bind(batch).value();
      program->run().value();
      return program->output("greatest")[0];
    };
    EXPECT_EQ(of(5, {-7, -2, -3, -4, -5, -6, -8, -9, -3, -1}), -1) << stripes;
    EXPECT_EQ(of(5, {-7, -2, -3, 4, -5, -6, -8, -9, -3, -1}), 4) << stripes;
    EXPECT_EQ(of(2, {-7, -2, -3, -4}), -2) << "the other rows are copies";
    EXPECT_EQ(of(0, {}), std::numeric_limits<float>::lowest()) << stripes;
  }
}

TEST(Choice, LetsANanPass) {
  for (const auto& [a, b] : {std::pair{kNan, 1.0F}, {1.0F, kNan}}) {
    EXPECT_TRUE(std::isnan(computed(minimum, {a}, {b}).value[0]));
    EXPECT_TRUE(std::isnan(computed(maximum, {a}, {b}).value[0]));
  }
}

TEST(Choice, TakesNothingOfWhatWasNotChosenNotEvenNan) {
  const auto larger = [](Var x, Var y) { return where(greater(x, affine(x, 0, 0.5)), x, scale(y, 3)); };
  const Computed got = computed(larger, {1, 0, kNan, 2}, {kNan, 2, 4, kInf});
  EXPECT_THAT(got.value, ElementsAre(1, 6, 12, 2));
  EXPECT_THAT(got.of_a, ElementsAre(1, 0, 0, 1));
  EXPECT_THAT(got.of_b, ElementsAre(0, 3, 3, 0));
}

TEST(Gather, GivesNanOutsideOfItsChoices) {
  Graph graph(4);
  const Var x = graph.input("x", {3}), chosen = gather(x, graph.input("index", {}, DType::kI32));
  graph.output("chosen", chosen);
  graph.output("gradient", graph.gradients(sum(chosen), std::array{x})[0]);
  const auto program = Program::compile(graph, {.stripes = 2}).value();
  const std::vector<float> values{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const std::vector<std::int32_t> index{2, 0, 3, -1};
  program->bind("x", std::span<const float>(values)).value();
  program->bind("index", std::span<const std::int32_t>(index)).value();
  program->run().value();
  EXPECT_THAT(program->output("chosen"), ElementsAre(3, 4, testing::IsNan(), testing::IsNan()));
  EXPECT_THAT(program->output("gradient"), ElementsAre(0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0));
}

TEST(Gather, SaysWhichShapesItTakes) {
  Graph graph(4);
  gather(graph.input("x", {3}), graph.input("index", {3}, DType::kI32));
  EXPECT_THAT(graph.status().error().message, HasSubstr("expected x [items..., choices, rest...]"));
}

TEST(Broadcast, RefusesShapesThatHaveNoneInCommon) {
  Graph graph(4);
  add(graph.input("x", {3}), graph.input("y", {2}));
  EXPECT_THAT(graph.status().error().message, HasSubstr("[4, 3] and [4, 2]"));
}

TEST(Broadcast, TakesNoRowsForColumns) {
  // A value for each row looks like a row of numbers where there are as many columns as rows.
  Graph graph(4);
  mul(graph.input("x", {4}), graph.input("y", {}));
  EXPECT_FALSE(graph.status().ok());
}

TEST(Broadcast, RepeatsOverABatchOfOneRowToo) {
  Graph graph(1);
  graph.output("sum", add(graph.input("x", {2}), graph.constant({1, 2}, {1, 2})));
  ASSERT_TRUE(graph.status().ok()) << graph.status().error().message;
  const auto program = Program::compile(graph, {}).value();
  const std::vector<float> values{3, 4};
  program->bind("x", std::span<const float>(values)).value();
  program->run().value();
  EXPECT_THAT(program->output("sum"), ElementsAre(4, 6));
}

TEST(Broadcast, LeavesOutRowsThatAreNoData) {
  Graph graph(4);
  const Var x = graph.input("x", {2});
  graph.output("sum", sum_to(x, {2}));
  const auto program = Program::compile(graph, {.stripes = 2}).value();
  const Signature columns{{"x", DType::kF32, Shape{2}}};
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  BatchView batch{.signature = &columns, .rows = 3, .columns = {std::as_bytes(std::span(values))}};
  program->bind(batch).value();
  program->run().value();
  EXPECT_THAT(program->output("sum"), ElementsAre(9, 12));
}

TEST(Math, IsRightAtTheEdges) {
  Graph graph(1);
  const Var x = graph.input("x", {9});
  for (const auto& [name, y] :
       {std::pair{"exp", exp(x)}, {"log", log(x)}, {"sqrt", sqrt(x)}, {"softplus", softplus(x)}}) {
    graph.output(name, y);
  }
  const auto program = Program::compile(graph, {}).value();
  const std::vector<float> values{0, -1, kInf, -kInf, kNan, 100, -100, 88.5F, 1e-40F};
  program->bind("x", std::span<const float>(values)).value();
  program->run().value();
  const auto same = [&](const char* name, double (*exact)(double), double relative) {
    const auto got = program->output(name);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool denormal = std::fpclassify(values[i]) == FP_SUBNORMAL;  // counts as 0 (engine/flush_denormals.hpp)
      const auto expected = static_cast<float>(exact(denormal ? 0 : values[i]));
      const std::string where = std::string(name) + " of " + std::to_string(values[i]);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(got[i])) << where;
      } else if (std::isinf(expected)) {
        EXPECT_EQ(got[i], expected) << where;
      } else {
        EXPECT_NEAR(got[i], expected, relative * std::abs(expected) + 1e-42) << where;
      }
    }
  };
  same("exp", std::exp, 5e-7);
  same("log", std::log, 5e-7);
  same("sqrt", std::sqrt, 2e-7);
  same(
      "softplus", [](double v) { return v > 50 ? v : std::log1p(std::exp(v)); }, 5e-7);
}

}  // namespace
}  // namespace troupe::learner
