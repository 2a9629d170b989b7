// Parameters that begin as orthogonal matrices. Other beginnings are what all golden tests and learners begin with.
#include <troupe/learner/engine/initial_values.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include <troupe/learner/engine/program.hpp>
#include <troupe/learner/ops/linear.hpp>

namespace troupe::learner {
namespace {

std::vector<float> orthogonal(const Shape& shape, double gain, std::uint64_t seed) {
  std::vector<float> values(static_cast<std::size_t>(shape.elements()), 7);
  initialise(values, shape, Init::orthogonal(gain), seed);
  return values;
}

TEST(OrthogonalInit, TheFewerOfRowsAndColumnsAreOrthonormalTimesTheGain) {
  for (const Shape& shape : {Shape{1, 1}, {9, 4}, {4, 9}, {6, 6}, {3, 3, 2, 8}, {2, 2, 3, 40}, {300, 50}}) {
    for (const double gain : {1.0, std::sqrt(2.0)}) {
      const std::vector<float> w = orthogonal(shape, gain, 5);
      const std::int64_t cols = shape[shape.rank() - 1], rows = shape.elements() / cols;
      const bool wide = rows < cols;
      const auto at = [&](std::int64_t which, std::int64_t i) {  // element i of one of the fewer
        return static_cast<double>(w[static_cast<std::size_t>(wide ? which * cols + i : i * cols + which)]);
      };
      for (std::int64_t a = 0; a < std::min(rows, cols); ++a) {
        for (std::int64_t b = 0; b <= a; ++b) {
          double product = 0;
          for (std::int64_t i = 0; i < std::max(rows, cols); ++i) product += at(a, i) * at(b, i);
          // Elements are rounded to float32: a product of hundreds of them is off by less than 1e-6.
          EXPECT_NEAR(product, a == b ? gain * gain : 0, 2e-6) << shape.to_string() << ' ' << a << ' ' << b;
        }
      }
    }
  }
}

TEST(OrthogonalInit, AllSignsAreAlike) {
  // Of a uniform orthogonal matrix each element is above 0 in half of the draws; the factor of Householder alone, whose
  // diagonal has one sign, is not so.
  int above = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) above += orthogonal({2, 2}, 1, seed)[0] > 0 ? 1 : 0;
  EXPECT_NEAR(above, 500, 60) << "four deviations of 16";
  EXPECT_EQ(orthogonal({4, 3}, 1, 2), orthogonal({4, 3}, 1, 2));
  EXPECT_NE(orthogonal({4, 3}, 1, 2), orthogonal({4, 3}, 1, 3));
}

TEST(OrthogonalInit, TargetsBeginEqual) {
  Graph graph(2);
  const ParamGroup net = graph.group("net"), slow = graph.average(net, 0.9);
  const Var x = graph.input("x", {3});
  for (const ParamGroup group : {net, slow}) {
    graph.output(group == net ? "y" : "z", matmul(x, graph.param(group, "w", {3, 4}, Init::orthogonal(1))));
  }
  const auto program = Program::compile(graph, {.seed = 3}).value();
  const std::span<const float> values = program->params("net")->values(),
                               later = program->params("net.average")->values();
  EXPECT_TRUE(std::ranges::equal(values, later));
  EXPECT_NE(values[0], 0);
}

}  // namespace
}  // namespace troupe::learner
