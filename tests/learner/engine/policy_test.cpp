#include <troupe/learner/engine/policy.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <troupe/algorithms/d4pg/policy.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/image.hpp>
#include <troupe/learner/ops/linear.hpp>
#include <troupe/learner/ops/shaping.hpp>

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

/// One column in, one column out.
std::vector<float> act(Policy& policy, std::span<const float> observations, std::int64_t rows) {
  const BatchView inputs{&policy.columns().inputs, rows, {std::as_bytes(observations)}};
  BatchBuffer outputs(policy.columns().outputs, rows);
  policy.act(inputs, outputs.mutable_view()).value();
  const auto actions = outputs.view().as<float>(0);
  return {actions.begin(), actions.end()};
}

TEST(Policy, ActsAsItsParametersSay) {
  for (const std::int64_t rows : {1, 5, 16}) {
    const auto policy = d4pg::make_policy(options_with_sizes({20, 12}), {.rows = rows}).value();
    const auto elements = static_cast<std::size_t>(policy->layout().elements);
    ASSERT_TRUE(policy->load(random_values(elements, 0.4), policy->fingerprint()).ok());
    ParamBuffer parameters(policy->layout());
    std::ranges::copy(policy->values(), parameters.values().begin());
    const std::vector<float> observations = random_values(static_cast<std::size_t>(3 * rows), 1);
    const std::vector<float> actions = act(*policy, observations, rows);
    ASSERT_EQ(actions.size(), static_cast<std::size_t>(2 * rows));
    for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
      const std::vector<double> expected = reference(parameters, std::span(observations).subspan(3 * row, 3));
      EXPECT_NEAR(actions[2 * row], expected[0], 1e-5);  // float32 sums of up to 20 products
      EXPECT_NEAR(actions[2 * row + 1], expected[1], 1e-5);
    }
  }
}

TEST(Policy, FewerRowsGiveTheSameActions) {
  const auto policy = d4pg::make_policy(options_with_sizes({20, 12}), {.rows = 7}).value();
  policy->load(random_values(static_cast<std::size_t>(policy->layout().elements), 0.4), policy->fingerprint()).value();
  const std::vector<float> observations = random_values(21, 1);
  const std::vector<float> all = act(*policy, observations, 7);
  const std::vector<float> few = act(*policy, std::span(observations).first(9), 3);
  EXPECT_TRUE(std::equal(few.begin(), few.end(), all.begin()));
}

TEST(Policy, TakesNoParametersOfAnotherNetwork) {
  const auto policy = d4pg::make_policy(options_with_sizes({20, 12}), {}).value();
  const auto other = d4pg::make_policy(options_with_sizes({12, 20}), {}).value();
  const std::vector<float> before = policy->values();
  const Status status = policy->load(other->values(), other->fingerprint());
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::kShapeMismatch);
  EXPECT_EQ(policy->values(), before);
}

TEST(Policy, RefusesStateThatNobodyPublishes) {
  const auto network = [](Graph& graph) {
    const Var x = graph.input("x", {2}), offset = graph.state("elsewhere/offset", {2}, Init::constant(0));
    graph.output("y", add(mul(x, graph.param(graph.group("policy"), "w", {2}, Init::constant(1))), offset));
  };
  const PolicyColumns columns{{{"x", DType::kF32, Shape{2}}}, {{"y", DType::kF32, Shape{2}}}};
  EXPECT_EQ(Policy::make(network, columns, {}).error().message,
            "policy: state \"state/elsewhere/offset\", expected a name that begins with \"state/policy/\"");
}

TEST(Policy, RefusesRowsThatDoNotFit) {
  const auto policy = d4pg::make_policy(options_with_sizes({20, 12}), {.rows = 2}).value();
  const PolicyColumns& columns = policy->columns();
  BatchBuffer observations(columns.inputs, 3), actions(columns.outputs, 3);
  const BatchView all = observations.view();
  const MutableBatchView to = actions.mutable_view();
  EXPECT_EQ(policy->act(all, to).error().code, Code::kShapeMismatch);
  EXPECT_EQ(policy->act(all.slice(0, 2), to).error().code, Code::kShapeMismatch);
  EXPECT_EQ(policy->act({}, {}).error().code, Code::kShapeMismatch);
  BatchView cut = all.slice(0, 2);
  cut.columns[0] = cut.columns[0].first(8);
  EXPECT_EQ(policy->act(cut, to.slice(0, 2)).error().code, Code::kShapeMismatch);
  EXPECT_EQ(d4pg::make_policy(options_with_sizes({20}), {.rows = 0}).error().code, Code::kInvalidArgument);
}

// ---- columns of any kind: images of bytes in, values of choices and recurrent state in and out ----

void sums_and_state(Graph& graph) {
  const Var pixels = from_bytes(graph.input("pixels", Shape{2, 3}, DType::kU8));
  const Var core = graph.input("core", Shape{3});
  const ParamGroup group = graph.group("policy");
  const Var flat = reshape(pixels, Shape{graph.batch(), 6});
  graph.output("values", matmul(flat, graph.param(group, "w", Shape{6, 2}, Init::constant(1))));
  graph.output("core", add(core, matmul(flat, graph.param(group, "u", Shape{6, 3}, Init::constant(2)))));
}

TEST(Policy, DrawsNothingOfWhatItIsGivenAnyway) {
  const PolicyColumns columns = {{{"x", DType::kF32, {3}}}, {{"action", DType::kF32, {2}}}};
  const auto network = [](Graph& graph) {
    const ParamGroup group = graph.group("policy");
    const Var weight = graph.param(group, "w", Shape{3, 2}, Init::orthogonal(1));
    graph.output("action",
                 linear(graph.input("x", Shape{3}), weight, graph.param(group, "b", Shape{2}, Init::constant(0.5))));
  };
  const auto policy = Policy::make(network, columns, {}).value();
  const std::vector<float> values = policy->values();
  const auto of = [&](const char* name, std::int64_t i) {
    return values[static_cast<std::size_t>(policy->layout().find(name)->offset + i)];
  };
  for (int i = 0; i < 6; ++i) EXPECT_EQ(of("policy/w", i), 0);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(of("policy/b", i), 0.5F);
}

TEST(Policy, TakesImagesOfBytesAndGivesSeveralColumns) {
  const PolicyColumns columns = {{{"pixels", DType::kU8, {2, 3}}, {"core", DType::kF32, {3}}},
                                 {{"values", DType::kF32, {2}}, {"core", DType::kF32, {3}}}};
  const auto policy = Policy::make(sums_and_state, columns, {.rows = 2}).value();
  BatchBuffer inputs(columns.inputs, 2), outputs(columns.outputs, 2);
  std::ranges::fill(inputs.mutable_view().as<std::uint8_t>(0).first(6), std::uint8_t{255});
  std::ranges::fill(inputs.mutable_view().as<std::uint8_t>(0).last(6), std::uint8_t{1});
  std::ranges::fill(inputs.mutable_view().as<float>(1).last(3), 0.5F);
  policy->act(inputs.view(), outputs.mutable_view()).value();
  const BatchView said = outputs.view();
  EXPECT_EQ(std::vector(said.as<float>(0).begin(), said.as<float>(0).end()), (std::vector<float>{1530, 1530, 6, 6}));
  EXPECT_EQ(said.as<float>(1)[0], 3060);
  EXPECT_EQ(said.as<float>(1)[5], 12.5F);
}

TEST(Policy, ColumnsThatTheNetworkHasNotAreRefused) {
  const TensorSpec pixels{"pixels", DType::kU8, {2, 3}}, core{"core", DType::kF32, {3}},
      values{"values", DType::kF32, {2}};
  const auto refusal = [](PolicyColumns columns) {
    return Policy::make(sums_and_state, std::move(columns), {}).error();
  };
  EXPECT_EQ(refusal({{pixels}, {values, core}}).message,
            "policy: the network reads core, which is no column of its input");
  EXPECT_EQ(refusal({{pixels, core}, {values}}).message, "policy: outputs of the network: got 2 columns, expected 1");
  EXPECT_EQ(refusal({{pixels, core, {"goal", DType::kF32, {1}}}, {values, core}}).code, Code::kNotFound);
  EXPECT_EQ(refusal({{{"pixels", DType::kF64, {2, 3}}, core}, {values, core}}).code, Code::kInvalidArgument);
  EXPECT_EQ(refusal({{{"pixels", DType::kU8, {2, 4}}, core}, {values, core}}).code, Code::kShapeMismatch);
  EXPECT_EQ(refusal({{{"pixels", DType::kF32, {2, 3}}, core}, {values, core}}).message,
            "bind \"pixels\": got float32, expected uint8");
}

}  // namespace
}  // namespace troupe::learner
