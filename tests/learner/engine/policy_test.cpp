#include <troupe/learner/engine/policy.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <troupe/algorithms/d4pg/policy.hpp>
#include <troupe/core/rng.hpp>

namespace troupe::learner {
namespace {

d4pg::Options options_with_sizes(std::vector<std::int64_t> sizes) {
  d4pg::Options options;
  options.environment = {.observation_size = 3, .action_low = {-2, 0}, .action_high = {2, 1}};
  options.policy_sizes = std::move(sizes);
  return options;
}

std::vector<float> random_values(std::size_t count, double scale) {
  Rng rng(4);
  std::vector<float> values(count);
  for (float& x : values) x = static_cast<float>(scale * rng.normal());
  return values;
}

/// The same network in plain loops over named tensors, in float64.
std::vector<double> reference(const ParamBuffer& parameters, std::span<const float> observation) {
  const auto tensor = [&](const std::string& name) {
    const ParamEntry* entry = parameters.layout().find("policy/" + name);
    EXPECT_NE(entry, nullptr) << name;
    return parameters.values().subspan(static_cast<std::size_t>(entry->offset),
                                       static_cast<std::size_t>(entry->shape.elements()));
  };
  std::vector<double> x(observation.begin(), observation.end());
  for (int layer = 0; layer < 3; ++layer) {
    const auto weight = tensor("layer" + std::to_string(layer) + "/weight");
    const auto bias = tensor("layer" + std::to_string(layer) + "/bias");
    std::vector<double> y(bias.begin(), bias.end());
    for (std::size_t i = 0; i < x.size(); ++i) {
      for (std::size_t j = 0; j < y.size(); ++j) y[j] += x[i] * weight[i * y.size() + j];
    }
    if (layer == 0) {
      double mean = 0, variance = 0;
      for (const double v : y) mean += v / static_cast<double>(y.size());
      for (const double v : y) variance += (v - mean) * (v - mean) / static_cast<double>(y.size());
      for (std::size_t j = 0; j < y.size(); ++j) {
        y[j] =
            std::tanh((y[j] - mean) / std::sqrt(variance + 1e-5) * tensor("norm/gain")[j] + tensor("norm/offset")[j]);
      }
    } else if (layer == 1) {
      for (double& v : y) v = v > 0 ? v : std::expm1(v);
    }
    x = y;
  }
  return {2 * std::tanh(x[0]), 0.5 + 0.5 * std::tanh(x[1])};
}

TEST(Policy, ActsAsItsParametersSay) {
  for (const std::int64_t rows : {1, 5, 16}) {
    const auto policy = d4pg::make_policy(options_with_sizes({20, 12}), {.rows = rows}).value();
    const ParamBuffer& parameters = policy->parameters();
    const std::vector<float> values = random_values(parameters.values().size(), 0.4);
    ASSERT_TRUE(policy->load(values, parameters.fingerprint()).ok());
    const std::vector<float> observations = random_values(static_cast<std::size_t>(3 * rows), 1);
    std::vector<float> actions(static_cast<std::size_t>(2 * rows));
    ASSERT_TRUE(policy->act(observations, actions).ok());
    for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
      const std::vector<double> expected = reference(parameters, std::span(observations).subspan(3 * row, 3));
      EXPECT_NEAR(actions[2 * row], expected[0], 1e-5);  // float32 sums of up to 20 products
      EXPECT_NEAR(actions[2 * row + 1], expected[1], 1e-5);
    }
  }
}

TEST(Policy, FewerRowsGiveTheSameActions) {
  const auto policy = d4pg::make_policy(options_with_sizes({20, 12}), {.rows = 7}).value();
  policy->load(random_values(policy->parameters().values().size(), 0.4), policy->parameters().fingerprint()).value();
  const std::vector<float> observations = random_values(21, 1);
  std::vector<float> all(14), few(6);
  policy->act(observations, all).value();
  policy->act(std::span(observations).first(9), few).value();
  EXPECT_TRUE(std::equal(few.begin(), few.end(), all.begin()));
}

TEST(Policy, TakesNoParametersOfAnotherNetwork) {
  const auto policy = d4pg::make_policy(options_with_sizes({20, 12}), {}).value();
  const auto other = d4pg::make_policy(options_with_sizes({12, 20}), {}).value();
  const std::vector<float> before(policy->parameters().values().begin(), policy->parameters().values().end());
  const Status status = policy->load(other->parameters().values(), other->parameters().fingerprint());
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::kShapeMismatch);
  EXPECT_TRUE(std::ranges::equal(before, policy->parameters().values()));
}

TEST(Policy, RefusesRowsThatDoNotFit) {
  const auto policy = d4pg::make_policy(options_with_sizes({20, 12}), {.rows = 2}).value();
  std::vector<float> observations(9), actions(6);
  EXPECT_EQ(policy->act(observations, actions).error().code, Code::kShapeMismatch);  // three rows
  EXPECT_EQ(policy->act(std::span(observations).first(6), actions).error().code, Code::kShapeMismatch);
  EXPECT_EQ(policy->act({}, {}).error().code, Code::kShapeMismatch);
  EXPECT_EQ(d4pg::make_policy(options_with_sizes({20}), {.rows = 0}).error().code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace troupe::learner
