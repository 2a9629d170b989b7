// Random numbers within a step: known answers of the generator, their distribution, and what they must not depend on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include <troupe/learner/engine/cpu/kernels/kernel_table.hpp>
#include <troupe/learner/engine/program.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/random.hpp>
#include <troupe/learner/ops/reduce.hpp>

namespace troupe::learner {
namespace {

/// One number by the kernel: its key is the bits of `seed` and the sequence, its counter the element and the step.
template <typename T>
T drawn(const KernelTable& table, std::uint32_t seed, std::uint32_t sequence, std::uint32_t element, std::uint32_t step,
        bool normal) {
  T key = std::bit_cast<float>(seed), count[2] = {T(step & 0xfffffU), T(step >> 20)}, out = -1;
  const Shape shape{1};
  const Operand operands[] = {{&key, 1, 1, &shape}, {count, 1, 2, &shape}, {&out, 1, 1, &shape}};
  const Attr attr{.integer = {sequence, element, 1, normal ? 1 : 0}};
  table.random({operands, operands + 2, &attr, nullptr});
  return out;
}

// Random123's known answer for threefry2x32 with 20 rounds: counter 243f6a88 85a308d3 and key 13198a2e 03707344 give
// c4923a9c 483df7a0.
TEST(Random, DrawsTheKnownAnswersOfThreefry) {
  const double first = (0xc4923a9cU >> 8) * 0x1p-24, second = (0x483df7a0U >> 8) * 0x1p-24;
  const double normal = std::sqrt(-2 * std::log(first + 0x1p-25)) * std::cos(2 * M_PI * second);
  std::vector<const KernelTable*> tables{&kernels_f32_generic()};
  for (const KernelTable* table : {kernels_f32_avx2(), kernels_f32_avx512()}) {
    if (table != nullptr) tables.push_back(table);
  }
  for (const KernelTable* table : tables) {
    EXPECT_EQ(drawn<float>(*table, 0x13198a2e, 0x03707344, 0x243f6a88, 0x85a308d3, false), first);
    EXPECT_NEAR(drawn<float>(*table, 0x13198a2e, 0x03707344, 0x243f6a88, 0x85a308d3, true), normal, 1e-6);
  }
  EXPECT_EQ(drawn<double>(kernels_f64(), 0x13198a2e, 0x03707344, 0x243f6a88, 0x85a308d3, false), first);
  EXPECT_NEAR(drawn<double>(kernels_f64(), 0x13198a2e, 0x03707344, 0x243f6a88, 0x85a308d3, true), normal, 1e-15);
}

struct Draws {
  std::vector<float> normal, uniform, other;
  friend bool operator==(const Draws&, const Draws&) = default;
};
/// Of `steps` steps of a program over rows first_row .. first_row + batch - 1.
std::vector<Draws> draws(std::int64_t batch, std::int64_t first_row, int stripes, int steps, std::uint64_t seed = 1) {
  Graph graph(batch);
  graph.set_first_row(first_row);
  graph.output("normal", random_normal(graph, "noise", {3}));
  graph.output("uniform", random_uniform(graph, "noise", {3}));
  graph.output("other", random_normal(graph, "more noise", {3}));
  auto program = Program::compile(graph, {.stripes = stripes, .seed = seed});
  EXPECT_TRUE(program.ok()) << program.error().message;
  std::vector<Draws> all;
  for (int step = 0; step < steps; ++step) {
    (*program)->run().value();
    const auto of = [&](const char* name) {
      const auto values = (*program)->output(name);
      return std::vector<float>(values.begin(), values.end());
    };
    all.push_back({of("normal"), of("uniform"), of("other")});
  }
  return all;
}

TEST(Random, DependsOnTheRowAndNotOnStripesOrReplicas) {
  const std::vector<Draws> whole = draws(12, 0, 1, 3);
  EXPECT_EQ(draws(12, 0, 5, 3), whole);
  const std::vector<Draws> second = draws(6, 6, 2, 3);
  for (std::size_t step = 0; step < 3; ++step) {
    EXPECT_EQ(second[step].normal, std::vector<float>(whole[step].normal.begin() + 18, whole[step].normal.end()));
  }
}

TEST(Random, DependsOnTheSeedTheStepAndTheName) {
  const std::vector<Draws> some = draws(12, 0, 1, 2);
  EXPECT_NE(some[0].normal, some[1].normal);
  EXPECT_NE(some[0].normal, some[0].other);
  EXPECT_NE(some[0].normal, draws(12, 0, 1, 1, 2)[0].normal);
}

TEST(Random, GoesOnInItsSequenceWhenTheStateIsRestored) {
  const auto make = [](std::uint64_t seed) {
    Graph graph(4);
    graph.output("normal", random_normal(graph, "noise", {}));
    return Program::compile(graph, {.seed = seed}).value();
  };
  const auto of = [](Program& program) {
    program.run().value();
    return std::vector<float>(program.output("normal").begin(), program.output("normal").end());
  };
  const auto first = make(1), second = make(2);
  of(*first);
  of(*first);
  const auto saved = first->state().values();
  std::copy(saved.begin(), saved.end(), second->state().values().begin());
  EXPECT_EQ(of(*second), of(*first));
}

TEST(Random, HasTheMomentsOfItsDistribution) {
  double normal[4] = {}, uniform[2] = {}, largest = 0;
  constexpr int kSteps = 20;
  constexpr std::int64_t kRows = 4096;
  for (const Draws& step : draws(kRows, 0, 1, kSteps)) {
    for (const float x : step.normal) {
      for (int power = 0; power < 4; ++power) normal[power] += std::pow(x, power + 1);
      largest = std::max<double>(largest, std::abs(x));
    }
    for (const float x : step.uniform) {
      EXPECT_TRUE(x >= 0 && x < 1);
      uniform[0] += x;
      uniform[1] += x * x;
    }
  }
  const double count = kSteps * kRows * 3;  // 245,760: five standard errors of each moment
  EXPECT_NEAR(normal[0] / count, 0, 5 / std::sqrt(count));
  EXPECT_NEAR(normal[1] / count, 1, 5 * std::sqrt(2 / count));
  EXPECT_NEAR(normal[2] / count, 0, 5 * std::sqrt(15 / count));
  EXPECT_NEAR(normal[3] / count, 3, 5 * std::sqrt(96 / count));
  EXPECT_GT(largest, 4) << "one of 63,000 is beyond 4";
  EXPECT_NEAR(uniform[0] / count, 0.5, 5 * std::sqrt(1 / (12 * count)));
  EXPECT_NEAR(uniform[1] / count, 1.0 / 3, 5 * std::sqrt(4 / (45 * count)));
}

TEST(Random, CountsStepsBeyondWhatOneFloatHolds) {
  float count[2] = {(1 << 20) - 1, 3}, next[2];
  const Shape shape{2};
  const Operand operands[] = {{count, 1, 2, &shape}, {next, 1, 2, &shape}};
  kernels_f32().count_step({operands, operands + 1, nullptr, nullptr});
  EXPECT_EQ(next[0], 0);
  EXPECT_EQ(next[1], 4);
}

TEST(Dropout, KeepsTheMeanAndItsGradientIsTheMask) {
  constexpr std::int64_t kRows = 2000;
  Graph graph(kRows);
  const Var x = graph.input("x", {8}), y = dropout(x, "dropout", 0.25);
  graph.output("y", y);
  graph.output("gradient", graph.gradients(sum(y), std::array{x})[0]);
  const auto program = Program::compile(graph, {}).value();
  const std::vector<float> ones(kRows * 8, 1);
  program->bind("x", std::span<const float>(ones)).value();
  program->run().value();
  EXPECT_THAT(program->output("gradient"), testing::ElementsAreArray(program->output("y")));
  double kept = 0;
  for (const float value : program->output("y")) {
    EXPECT_TRUE(value == 0 || value == 4.0F / 3) << value;
    kept += value != 0 ? 1 : 0;
  }
  EXPECT_NEAR(kept / (kRows * 8), 0.75, 5 * std::sqrt(0.75 * 0.25 / (kRows * 8)));
}

TEST(Dropout, RefusesARateOfOneAndWhatIsNotOfTheBatch) {
  Graph graph(4);
  dropout(graph.input("x", {2}), "dropout", 1);
  EXPECT_THAT(graph.status().error().message, testing::HasSubstr("expected a rate in [0, 1)"));
  Graph shared(4);
  dropout(shared.shared_input("x", {2}), "dropout", 0.5);
  EXPECT_THAT(shared.status().error().message, testing::HasSubstr("a value with the batch's rows"));
}

}  // namespace
}  // namespace troupe::learner
