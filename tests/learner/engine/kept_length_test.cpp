// Parameters that keep their length: at first, after each update, and before what follows them does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include <troupe/learner/engine/kept_length.hpp>
#include <troupe/learner/engine/program.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/linear.hpp>
#include <troupe/learner/ops/reduce.hpp>

namespace troupe::learner {
namespace {

constexpr std::int64_t kInputs = 37, kUnits = 150;  // columns of three blocks, the last one not whole

struct Kept {
  Graph graph{12};
  ParamGroup net = graph.group("net");
  Var weight = graph.param(net, "weight", {kInputs, kUnits}, Init::normal(3));
  Var gain = graph.param(net, "gain", {kUnits}, Init::constant(1));
  Var offset = graph.param(net, "offset", {kUnits}, Init::constant(0));
  Var free = graph.param(net, "free", {kUnits}, Init::constant(1));

  void keep() {
    graph.keep_length({weight}, LengthOf::kColumns);
    graph.keep_length({gain, offset}, LengthOf::kAll, 5);
  }
  std::unique_ptr<Program> compile(const CompileOptions& options, std::int64_t every_steps = 1) {
    keep();
    keep();  // as where the network is built once more
    const Var y = add(mul(matmul(graph.input("x", {kInputs}), weight), gain), mul(offset, free));
    graph.average(net, 0.75);
    graph.minimize(mean(square(affine(y, 1, -1))), net,
                   {.rule = Adam{.learning_rate = 0.1}, .every_steps = every_steps});
    return Program::compile(graph, options).value();
  }
};

void step(Program& program) {
  std::vector<float> x(12 * kInputs);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
  ASSERT_TRUE(program.bind("x", std::span<const float>(x)).ok());
  ASSERT_TRUE(program.run().ok());
}

std::span<float> tensor(Program& program, const std::string& name) {
  ParamBuffer& net = *program.params("net");
  return net.tensor(*net.layout().find("net/" + name));
}
double length(std::span<const float> x, std::size_t first = 0, std::size_t stride = 1) {
  double squares = 0;
  for (std::size_t i = first; i < x.size(); i += stride) squares += double{x[i]} * x[i];
  return std::sqrt(squares);
}
void expect_kept(Program& program) {
  for (std::size_t unit = 0; unit < kUnits; ++unit) {
    ASSERT_NEAR(length(tensor(program, "weight"), unit, kUnits), 1, 1e-6) << unit;
  }
  EXPECT_NEAR(std::hypot(length(tensor(program, "gain")), length(tensor(program, "offset"))), 5, 1e-6);
}

TEST(KeptLength, HoldsAtFirstAndAfterEachStepWhateverTheThreads) {
  std::vector<float> expected;
  for (const auto& [stripes, threads] : {std::pair{4, 1}, {4, 2}, {4, 4}}) {
    Kept kept;
    const auto program = kept.compile({.stripes = stripes, .threads = threads, .seed = 3});
    expect_kept(*program);
    const std::vector<float> first(tensor(*program, "weight").begin(), tensor(*program, "weight").end());
    for (int i = 0; i < 3; ++i) {
      step(*program);
      expect_kept(*program);
    }
    EXPECT_FALSE(std::ranges::equal(first, tensor(*program, "weight")));
    EXPECT_GT(length(tensor(*program, "offset")), 0.1);
    EXPECT_GT(std::abs(length(tensor(*program, "free")) - std::sqrt(double{kUnits})), 0.1) << "it is kept by nothing";
    const std::span<const float> values = program->params("net")->values();
    if (expected.empty()) expected.assign(values.begin(), values.end());
    EXPECT_TRUE(std::ranges::equal(values, expected)) << threads << " threads";
  }
}

TEST(KeptLength, ScalesWhatTheOptimiserMade) {
  // The same step without: its parameters, scaled, are those with it, since all start projected.
  Kept with, without;
  const auto kept = with.compile({.seed = 3});
  const Var y = add(mul(matmul(without.graph.input("x", {kInputs}), without.weight), without.gain),
                    mul(without.offset, without.free));
  without.graph.minimize(mean(square(affine(y, 1, -1))), without.net, {.rule = Adam{.learning_rate = 0.1}});
  const auto plain = Program::compile(without.graph, {.seed = 3}).value();
  std::ranges::copy(kept->params("net")->values(), plain->params("net")->values().begin());
  const std::vector<float> before(kept->params("net")->values().begin(), kept->params("net")->values().end());
  step(*kept);
  step(*plain);
  const std::span<const float> from = tensor(*plain, "weight"), to = tensor(*kept, "weight");
  for (std::size_t i = 0; i < from.size(); ++i) {
    ASSERT_NEAR(to[i], from[i] / length(from, i % kUnits, kUnits), 1e-6) << i;
  }
  const double together = std::hypot(length(tensor(*plain, "gain")), length(tensor(*plain, "offset")));
  for (std::size_t i = 0; i < kUnits; ++i) {
    EXPECT_NEAR(tensor(*kept, "offset")[i], 5 * tensor(*plain, "offset")[i] / together, 1e-6);
    EXPECT_EQ(tensor(*kept, "free")[i], tensor(*plain, "free")[i]);
  }
  // The average follows what was scaled.
  const std::span<const float> average = kept->params("net.average")->values(), now = kept->params("net")->values();
  for (std::size_t i = 0; i < now.size(); ++i) EXPECT_NEAR(average[i], 0.75 * before[i] + 0.25 * now[i], 1e-6);
}

TEST(KeptLength, LeavesZerosAndStepsThatUpdateNothingAlone) {
  Kept kept;
  const auto program = kept.compile({.seed = 3}, 2);
  std::ranges::fill(tensor(*program, "weight"), 2.0F);
  step(*program);
  EXPECT_THAT(tensor(*program, "weight"), testing::Each(2.0F)) << "the first of two steps";
  step(*program);
  expect_kept(*program);
  std::ranges::fill(program->params("net")->values(), 0.0F);
  KeptLengths(program->params("net")->layout()).restore(program->params("net")->values().data(), nullptr);
  EXPECT_THAT(program->params("net")->values(), testing::Each(0.0F));
}

TEST(KeptLength, HoldsInBfloat16Too) {
  Kept kept;
  const auto program = kept.compile({.stripes = 2, .compute = DType::kBF16, .seed = 3});
  for (int i = 0; i < 2; ++i) step(*program);
  expect_kept(*program);
  const double metric = program->params("net")->values()[0];
  program->parameters_changed();  // makes the shadow anew: it was that already
  step(*program);
  Kept again;
  const auto other = again.compile({.stripes = 2, .compute = DType::kBF16, .seed = 3});
  for (int i = 0; i < 2; ++i) step(*other);
  EXPECT_EQ(other->params("net")->values()[0], metric);
  step(*other);
  EXPECT_TRUE(std::ranges::equal(other->params("net")->values(), program->params("net")->values()));
}

TEST(KeptLength, SaysWhatCannotBeKept) {
  const auto error = [](const std::function<void(Kept&)>& keep) {
    Kept kept;
    keep(kept);
    return kept.graph.status().ok() ? std::string() : kept.graph.status().error().message;
  };
  EXPECT_EQ(error([](Kept& kept) { kept.graph.keep_length({kept.graph.input("x", {})}, LengthOf::kAll); }),
            "keep_length: expected parameters");
  EXPECT_EQ(error([](Kept& kept) { kept.graph.keep_length({kept.weight}, LengthOf::kAll, 0); }),
            "keep_length: 1 parameters and length 0, expected 1 to 4 and above 0");
  EXPECT_EQ(error([](Kept& kept) {
              const Var other = kept.graph.param(kept.graph.group("other"), "gain", {kUnits}, {});
              kept.graph.keep_length({kept.gain, other}, LengthOf::kAll);
            }),
            "keep_length: \"other/gain\" of 1 columns, expected one of the group \"net\" with 1");
  EXPECT_EQ(error([](Kept& kept) {
              kept.keep();
              kept.graph.keep_length({kept.offset}, LengthOf::kAll, 2);
            }),
            "keep_length: \"net/offset\" keeps a length already");
  EXPECT_EQ(error([](Kept& kept) { kept.keep(), kept.keep(); }), "");
}

}  // namespace
}  // namespace troupe::learner
