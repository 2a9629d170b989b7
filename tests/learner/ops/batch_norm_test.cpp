// Batch and spectral norm: forward values and state against plain loops. Gradients: gradient_test.cpp; across replicas
// and against PyTorch: the classifier and sngan tests.
#include <troupe/learner/ops/batch_norm.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include <troupe/core/rng.hpp>
#include <troupe/learner/engine/program.hpp>
#include <troupe/learner/ops/spectral_norm.hpp>

namespace troupe::learner {
namespace {

constexpr std::int64_t kRows = 70, kColumns = 19;  // more than a block of rows, more than a vector

struct Net {
  std::unique_ptr<Program> program;

  explicit Net(bool training, int stripes) {
    Graph graph(kRows);
    const Shape columns{kColumns};
    graph.output("y", batch_norm(graph.input("x", columns), graph.shared_input("gain", columns),
                                 graph.shared_input("offset", columns), graph.state("mean", columns, {}),
                                 graph.state("variance", columns, Init::constant(1)),
                                 {.training = training, .momentum = 0.2, .epsilon = 1e-3}));
    program = Program::compile(graph, {.stripes = stripes}).value();
  }
};

TEST(BatchNorm, NormalisesWithTheBatchAndMovesTheRunningStatistics) {
  for (const int stripes : {1, 3}) {
    Net net(true, stripes);
    Rng rng(3);
    std::vector<float> x(kRows * kColumns), gain(kColumns), offset(kColumns);
    for (auto* values : {&gain, &offset}) {
      for (float& value : *values) value = static_cast<float>(rng.normal());
    }
    std::vector<double> running_mean(kColumns), running_variance(kColumns, 1);
    for (int step = 0; step < 3; ++step) {
      // Far from 0: the sums are taken about the running mean, so squares do not cancel badly after the first steps.
      for (float& value : x) value = static_cast<float>(30 + 2 * rng.normal());
      net.program->bind("x", std::span<const float>(x)).value();
      net.program->bind("gain", std::span<const float>(gain)).value();
      net.program->bind("offset", std::span<const float>(offset)).value();
      net.program->run().value();
      for (std::size_t c = 0; c < kColumns; ++c) {
        double mean = 0, variance = 0;
        for (std::size_t row = 0; row < kRows; ++row) mean += x[row * kColumns + c] / double{kRows};
        for (std::size_t row = 0; row < kRows; ++row) {
          variance += std::pow(x[row * kColumns + c] - mean, 2) / double{kRows};
        }
        running_mean[c] += 0.2 * (mean - running_mean[c]);
        running_variance[c] += 0.2 * (variance * kRows / (kRows - 1) - running_variance[c]);
        for (std::size_t row = 0; row < kRows; ++row) {
          const std::size_t at = row * kColumns + c;
          const double expected = gain[c] * (x[at] - mean) / std::sqrt(variance + 1e-3) + offset[c];
          // Squares of 32 about 0 in the first step, 2e-7 of 1000 in a variance of 4: 1e-4 of a value up to 8.
          ASSERT_NEAR(net.program->output("y")[at], expected, 1e-3) << stripes << " stripes, step " << step;
        }
        const ParamLayout& layout = net.program->state().layout();
        const auto state = [&](const char* name) { return net.program->state().tensor(*layout.find(name))[c]; };
        EXPECT_NEAR(state("state/mean"), running_mean[c], 1e-4);
        EXPECT_NEAR(state("state/variance"), running_variance[c], 1e-3);
      }
    }
  }
}

TEST(BatchNorm, UsesAndKeepsTheRunningStatisticsOutsideTraining) {
  Net net(false, 2);
  ParamBuffer& state = net.program->state();
  for (float& value : state.tensor(*state.layout().find("state/mean"))) value = 3;
  for (float& value : state.tensor(*state.layout().find("state/variance"))) value = 4 - 1e-3F;
  const std::vector<float> before(state.values().begin(), state.values().end());
  const std::vector<float> x(kRows * kColumns, 5), gain(kColumns, 2), offset(kColumns, 0.5F);
  net.program->bind("x", std::span<const float>(x)).value();
  net.program->bind("gain", std::span<const float>(gain)).value();
  net.program->bind("offset", std::span<const float>(offset)).value();
  net.program->run().value();
  EXPECT_THAT(net.program->output("y"), testing::Each(testing::FloatNear(2.5F, 1e-6F)));
  EXPECT_THAT(state.values(), testing::ElementsAreArray(before));
}

TEST(BatchNorm, TwoPassesInAStepMoveTheStatisticsTwice) {
  Graph graph(2);
  const Var gain = graph.constant({1}, {1}), offset = graph.constant({1}, {0});
  const Var x = graph.input("x", {1});
  for (const char* pass : {"first", "second"}) {
    graph.output(pass, batch_norm(x, gain, offset, graph.state("mean", {1}, {}),
                                  graph.state("variance", {1}, Init::constant(1)), {.momentum = 0.5}));
  }
  const auto program = Program::compile(graph, {}).value();
  const std::vector<float> data{7, 9};
  program->bind("x", std::span<const float>(data)).value();
  program->run().value();
  const auto state = [&](const char* name) {
    return program->state().tensor(*program->state().layout().find(name))[0];
  };
  EXPECT_FLOAT_EQ(state("state/mean"), 6);         // 0, 4, 6
  EXPECT_FLOAT_EQ(state("state/variance"), 1.75);  // 1, 1.5, 1.75
}

TEST(SpectralNorm, DividesByTheLargestSingularValueOnceUHasConverged) {
  Graph graph(1);
  // Singular values 3 and 2, by construction: a rotation times a diagonal.
  const double c = std::cos(0.7), s = std::sin(0.7);
  const Var weight = graph.constant({2, 2}, {static_cast<float>(3 * c), static_cast<float>(-2 * s),
                                             static_cast<float>(3 * s), static_cast<float>(2 * c)});
  graph.output("normal", spectral_norm(weight, graph.state("u", {2}, Init::normal(1))));
  graph.output("x", graph.input("x", {}));
  const auto program = Program::compile(graph, {}).value();
  const std::vector<float> x{0};
  program->bind("x", std::span<const float>(x)).value();
  for (int step = 0; step < 60; ++step) program->run().value();  // an error of (2/3)^2 is left by each
  EXPECT_NEAR(program->output("normal")[0], c, 1e-6);
  EXPECT_NEAR(program->output("normal")[1], -2 * s / 3, 1e-6);
  EXPECT_NEAR(std::abs(program->state().values()[0]), 1, 1e-6);
}

}  // namespace
}  // namespace troupe::learner
