#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include <troupe/core/rng.hpp>
#include <troupe/learner/ops/categorical.hpp>
#include <troupe/learner/program.hpp>

namespace troupe::learner {
namespace {

/// L2 projection in its dense form: atom j receives sum_i p_i max(0, 1 - |clip(T z_i) - z_j| / step).
std::vector<double> dense_projection(const std::vector<float>& probs, float reward, float discount, const Support& s) {
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

TEST(CategoricalProjection, AgreesWithTheDenseFormAndKeepsTheMass) {
  const Support support{-10, 10, 51};
  // Far outside of the support, ends of episodes, exact atoms, and ordinary rewards.
  const std::vector<float> rewards{-1000, 1000, 0, 0.4F, 3.3F, -7.77F, 10, -10};
  const std::vector<float> discounts{0.99F, 0.99F, 1, 0, 0.95F, 0.99F, 0.99F, 0};
  const auto rows = static_cast<std::int64_t>(rewards.size());
  Graph graph(rows);
  graph.output("target", categorical_projection(graph.input("probs", {51}), graph.input("reward", {}),
                                                graph.input("discount", {}), support));
  auto program = Program::compile(graph, {.shards = 3});
  ASSERT_TRUE(program.ok()) << program.error().message;
  Rng rng(5);
  std::vector<float> probs;
  for (std::int64_t row = 0; row < rows; ++row) {
    std::vector<float> p(51);
    float sum = 0;
    for (float& x : p) sum += x = static_cast<float>(rng.uniform());
    for (const float x : p) probs.push_back(x / sum);
  }
  (*program)->bind("probs", std::span<const float>(probs)).value();
  (*program)->bind("reward", std::span<const float>(rewards)).value();
  (*program)->bind("discount", std::span<const float>(discounts)).value();
  (*program)->run().value();
  const auto got = (*program)->output("target");
  for (std::size_t row = 0; row < rewards.size(); ++row) {
    const std::vector<float> p(probs.begin() + static_cast<long>(row) * 51,
                               probs.begin() + static_cast<long>(row + 1) * 51);
    const auto expected = dense_projection(p, rewards[row], discounts[row], support);
    double mass = 0;
    for (std::size_t i = 0; i < 51; ++i) {
      EXPECT_NEAR(got[row * 51 + i], expected[i], 1e-5) << "row " << row << " atom " << i;
      mass += got[row * 51 + i];
    }
    EXPECT_NEAR(mass, 1, 1e-5);
  }
}

TEST(CategoricalProjection, ARewardThatIsNotFiniteSpoilsItsRowAndNoOther) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  const std::vector<float> rewards{0, kNan, 0, kInf}, discounts{1, 1, kNan, -kInf};
  Graph graph(4);
  graph.output("target", categorical_projection(graph.input("probs", {5}), graph.input("reward", {}),
                                                graph.input("discount", {}), {-2, 2, 5}));
  auto program = Program::compile(graph, {});
  const std::vector<float> probs(20, 0.2F);
  (*program)->bind("probs", std::span<const float>(probs)).value();
  (*program)->bind("reward", std::span<const float>(rewards)).value();
  (*program)->bind("discount", std::span<const float>(discounts)).value();
  (*program)->run().value();
  const auto got = (*program)->output("target");
  for (std::size_t i = 0; i < 5; ++i) EXPECT_FLOAT_EQ(got[i], 0.2F);
  for (std::size_t row = 1; row < 4; ++row) EXPECT_TRUE(std::isnan(got[row * 5])) << row;
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
