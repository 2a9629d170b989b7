#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include <troupe/core/rng.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/learner/engine/program.hpp>
#include <troupe/learner/ops/categorical.hpp>
#include <troupe/learner/ops/linear.hpp>
#include <troupe/learner/ops/reduce.hpp>

namespace troupe::learner {
namespace {

constexpr std::int64_t kAtoms = 51;
const Support kCategoricalSupport{-10, 10, kAtoms};
// Far outside of the support, ends of episodes, exact atoms, and ordinary rewards.
const std::vector<float> kRewards{-1000, 1000, 0, 0.4F, 3.3F, -7.77F, 10, -10};
const std::vector<float> kDiscounts{0.99F, 0.99F, 1, 0, 0.95F, 0.99F, 0.99F, 0};
constexpr std::int64_t kCategoricalRows = 8;

std::vector<float> random_logits(std::uint64_t seed) {
  Rng rng(seed);
  std::vector<float> logits(kCategoricalRows * kAtoms);
  for (float& x : logits) x = static_cast<float>(2 * rng.normal());
  return logits;
}

std::vector<double> softmax_of(std::span<const float> logits) {
  std::vector<double> probs;
  double total = 0;
  for (const float x : logits) total += probs.emplace_back(std::exp(static_cast<double>(x)));
  for (double& p : probs) p /= total;
  return probs;
}

/// L2 projection in its dense form: atom j receives sum_i p_i max(0, 1 - |clip(T z_i) - z_j| / step).
std::vector<double> dense_projection(const std::vector<double>& probs, double reward, double discount,
                                     const Support& s) {
  const double step = (s.high - s.low) / static_cast<double>(s.count - 1);
  std::vector<double> out(static_cast<std::size_t>(s.count));
  for (std::size_t j = 0; j < out.size(); ++j) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      const double z = s.low + static_cast<double>(i) * step, target = std::clamp(reward + discount * z, s.low, s.high);
      out[j] += probs[i] * std::max(0.0, 1 - std::abs(target - (s.low + static_cast<double>(j) * step)) / step);
    }
  }
  return out;
}

/// "loss" and "gradient": of the sum of the losses by the logits; "x", "next", "reward" and "discount" are bound.
std::unique_ptr<Program> td_program(std::int64_t rows, const Support& support, const CompileOptions& options) {
  Graph graph(rows);
  const Var x = graph.input("x", {support.count});
  const Var loss = categorical_td(x, graph.input("next", {support.count}), graph.input("reward", {}),
                                  graph.input("discount", {}), support);
  graph.output("loss", loss);
  graph.output("gradient", graph.gradients(sum(loss), std::array{x})[0]);
  auto program = Program::compile(graph, options);
  EXPECT_TRUE(program.ok()) << program.error().message;
  return std::move(program).value();
}
void run(Program& program, const std::vector<float>& x, const std::vector<float>& next,
         const std::vector<float>& reward, const std::vector<float>& discount) {
  program.bind("x", std::span<const float>(x)).value();
  program.bind("next", std::span<const float>(next)).value();
  program.bind("reward", std::span<const float>(reward)).value();
  program.bind("discount", std::span<const float>(discount)).value();
  program.run().value();
}

TEST(CategoricalTd, IsTheCrossEntropyToTheProjectionInItsDenseForm) {
  const std::vector<float> x = random_logits(5), next = random_logits(6);
  const auto program = td_program(kCategoricalRows, kCategoricalSupport, {.stripes = 3});
  run(*program, x, next, kRewards, kDiscounts);
  for (std::size_t row = 0; row < kCategoricalRows; ++row) {
    const auto row_of = [&](const std::vector<float>& logits) {
      return std::span(logits).subspan(row * kAtoms, kAtoms);
    };
    const std::vector<double> probs = softmax_of(row_of(x));
    const auto target = dense_projection(softmax_of(row_of(next)), kRewards[row], kDiscounts[row], kCategoricalSupport);
    double loss = 0;
    for (std::size_t i = 0; i < kAtoms; ++i) {
      loss -= target[i] * std::log(probs[i]);
      // Where an atom falls is known to 4e-6 of a step, as a float32 below 51 has it.
      EXPECT_NEAR(program->output("gradient")[row * kAtoms + i], probs[i] - target[i], 5e-6) << row << " atom " << i;
    }
    EXPECT_NEAR(program->output("loss")[row], loss, 1e-5 * loss) << row;
    EXPECT_GE(program->output("loss")[row], 0);
  }
}

TEST(CategoricalTd, HasItsLossAlsoWhereNobodyWantsAGradient) {
  const std::vector<float> x = random_logits(5), next = random_logits(6);
  const auto trains = td_program(kCategoricalRows, kCategoricalSupport, {});
  Graph graph(kCategoricalRows);
  graph.output("loss", categorical_td(graph.input("x", {kAtoms}), graph.input("next", {kAtoms}),
                                      graph.input("reward", {}), graph.input("discount", {}), kCategoricalSupport));
  const auto judges = Program::compile(graph, {}).value();
  for (Program* const program : {trains.get(), judges.get()}) run(*program, x, next, kRewards, kDiscounts);
  for (std::size_t row = 0; row < kCategoricalRows; ++row) {
    const float loss = trains->output("loss")[row];
    EXPECT_NEAR(judges->output("loss")[row], loss, 2e-6 * loss) << row;  // the same sum in another order
  }
}

TEST(CategoricalTd, ARewardThatIsNotFiniteSpoilsItsRowAndNoOther) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  const std::vector<float> zeros(25, 0.0F);
  const auto program = td_program(5, {-2, 2, 5}, {});
  run(*program, zeros, zeros, {0, kNan, 0, kInf, kInf}, {1, 1, kNan, -kInf, 1});
  const auto loss = program->output("loss"), gradient = program->output("gradient");
  EXPECT_FLOAT_EQ(loss[0], std::log(5.0F));
  for (std::size_t i = 0; i < 5; ++i) EXPECT_NEAR(gradient[i], 0, 1e-7);
  for (std::size_t row = 1; row < 4; ++row) {
    EXPECT_TRUE(std::isnan(loss[row])) << row;
    for (std::size_t i = 0; i < 5; ++i) EXPECT_TRUE(std::isnan(gradient[row * 5 + i])) << row;
  }
  EXPECT_FLOAT_EQ(loss[4], std::log(5.0F)) << "more than the support has is its last atom";
  EXPECT_FLOAT_EQ(gradient[24], 0.2F - 1);
}

TEST(CategoricalTd, StaysFiniteForLargeLogits) {
  const auto program = td_program(1, {0, 1, 3}, {});
  run(*program, {1000, 0, -1000}, {-1000, 1000, 0}, {0}, {1});
  EXPECT_FLOAT_EQ(program->output("loss")[0], 1000);
  EXPECT_FLOAT_EQ(program->output("gradient")[0], 1);
  EXPECT_FLOAT_EQ(program->output("gradient")[1], -1);
}

TEST(CategoricalTd, LeavesRowsThatAreNoDataOutOfItsGradient) {
  const Signature signature{{"x", DType::kF32, {kAtoms}},
                            {"next", DType::kF32, {kAtoms}},
                            {"reward", DType::kF32, {}},
                            {"discount", DType::kF32, {}}};
  BatchBuffer batch(signature, kCategoricalRows);
  std::ranges::copy(random_logits(5), batch.mutable_view().as<float>(0).begin());
  std::ranges::copy(random_logits(6), batch.mutable_view().as<float>(1).begin());
  std::ranges::copy(kRewards, batch.mutable_view().as<float>(2).begin());
  std::ranges::copy(kDiscounts, batch.mutable_view().as<float>(3).begin());
  const auto gradient_of = [&](std::int64_t graph_rows, int stripes) {
    Graph graph(graph_rows);
    const ParamGroup head = graph.group("head");
    const Var bias = graph.param(head, "bias", {kAtoms}, Init::normal(1));
    const Var loss = categorical_td(bias_activation(graph.input("x", {kAtoms}), bias), graph.input("next", {kAtoms}),
                                    graph.input("reward", {}), graph.input("discount", {}), kCategoricalSupport);
    graph.minimize(mean(loss), head, {});
    const auto program = Program::compile(graph, {.stripes = stripes}).value();
    program->bind(batch.view().slice(0, 5)).value();
    program->run(Phase::kGradients).value();
    const auto gradient = program->gradient("head");
    return std::vector<float>(gradient.begin(), gradient.end());
  };
  const std::vector<float> exact = gradient_of(5, 1);
  for (const int stripes : {1, 3}) {
    const std::vector<float> got = gradient_of(kCategoricalRows, stripes);
    for (std::size_t i = 0; i < kAtoms; ++i) EXPECT_NEAR(got[i], exact[i], 1e-6) << i << ", " << stripes << " stripes";
  }
}

TEST(SoftmaxCrossEntropy, StaysFiniteForLargeLogits) {
  Graph graph(1);
  const Var logits = graph.input("logits", {3}), target = graph.input("target", {3});
  graph.output("loss", softmax_cross_entropy(logits, target));
  graph.output("log_softmax", log_softmax(logits));
  auto program = Program::compile(graph, {});
  const std::vector<float> x{1000, 0, -1000}, t{0.5F, 0.5F, 0};
  (*program)->bind("logits", std::span<const float>(x)).value();
  (*program)->bind("target", std::span<const float>(t)).value();
  (*program)->run().value();
  EXPECT_FLOAT_EQ((*program)->output("loss")[0], 500);
  EXPECT_FLOAT_EQ((*program)->output("log_softmax")[2], -2000);
}

}  // namespace
}  // namespace troupe::learner
