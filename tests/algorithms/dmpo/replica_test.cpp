// What DMPO has of its own beside the step that agents_golden_test.cpp holds against PyTorch: where its dual variables
// begin, what its actions are within the environment's bounds, and what it refuses.
#include <troupe/algorithms/dmpo/replica.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include <troupe/learner/engine/policy.hpp>
#include <troupe/learner/replicate/multi_worker.hpp>
#include <troupe/tests/algorithms/d4pg/batches.hpp>

namespace troupe::learner::dmpo {
namespace {

constexpr std::int64_t kRows = 8;

Options small_options() {
  Options options;
  options.environment = {.observation_size = 3, .action_low = {-1, 2}, .action_high = {1, 6}};
  options.policy_sizes = options.critic_sizes = {16};
  options.samples = 4;
  return options;
}

/// A learner after one step on made-up rows.
std::unique_ptr<OneDevice> after_a_step(const Options& options) {
  BatchSlot slot(control::transitions(options.environment, false));
  const auto replica = training(options, [&](const InputContext&) { return slot.pipeline(); });
  auto learner = OneDevice::make(*replica, {.batch = kRows}).value();
  Rng rng(3);
  BatchBuffer batch(control::transitions(options.environment, false), kRows);
  d4pg::fill_random(rng, batch);
  slot.offer(batch.view()).value();
  learner->step().value();
  return learner;
}

double metric(OneDevice& learner, const std::string& name) {
  const auto names = learner.program().metric_names();
  const auto found = std::ranges::find(names, name);
  return found == names.end() ? -1 : learner.program().metrics()[static_cast<std::size_t>(found - names.begin())];
}

TEST(Dmpo, DualVariablesBeginWhereTheOptionsSay) {
  const auto first = after_a_step(small_options());
  EXPECT_FLOAT_EQ(metric(*first, "temperature"), 10);
  EXPECT_FLOAT_EQ(metric(*first, "penalty_temperature"), 10);
  EXPECT_FLOAT_EQ(metric(*first, "alpha_mean"), 10);
  EXPECT_FLOAT_EQ(metric(*first, "alpha_stddev"), 1000);
  Options options = small_options();
  options.limits.temperature = 0.01;
  options.limits.alpha_mean = 1e-5;
  options.action_penalization = false;
  const auto second = after_a_step(options);
  EXPECT_NEAR(metric(*second, "temperature"), 0.01, 1e-7);
  EXPECT_NEAR(metric(*second, "alpha_mean"), 1e-5, 1e-10);
  EXPECT_EQ(metric(*second, "penalty_temperature"), -1) << "there is none";
}

TEST(Dmpo, AtTheBeginningThePolicyIsItsTarget) {
  const auto learner = after_a_step(small_options());
  EXPECT_EQ(metric(*learner, "kl_mean"), 0);
  EXPECT_NEAR(metric(*learner, "kl_stddev"), 0, 1e-6);
  EXPECT_GT(metric(*learner, "kl_samples"), 0);
}

TEST(Dmpo, GreedyActionsAreTheMeanWithinTheEnvironmentsBounds) {
  const Options options = small_options();
  const Shape action{2};
  const PolicyColumns columns{
      {{"observation", DType::kF32, Shape{3}}},
      {{"action", DType::kF32, action}, {"mean", DType::kF32, action}, {"stddev", DType::kF32, action}}};
  const auto policy = Policy::make([&](Graph& graph) { build_policy(graph, options); }, columns, {.rows = 1}).value();
  const ParamLayout& layout = policy->layout();
  const ParamEntry& bias = *layout.find("policy.target/mean/bias");
  const auto acts = [&](std::vector<float> mean) {
    std::vector<float> values(static_cast<std::size_t>(layout.elements));  // zero, so the bias alone counts
    std::ranges::copy(mean, values.begin() + bias.offset);
    policy->load(values, policy->fingerprint()).value();
    BatchBuffer inputs(columns.inputs, 1), outputs(columns.outputs, 1);
    policy->act(inputs.view(), outputs.mutable_view()).value();
    const auto got = outputs.view().as<float>(0), stddev = outputs.view().as<float>(2);
    EXPECT_FLOAT_EQ(stddev[0], 0.7F + 1e-6F);
    return std::vector<float>(got.begin(), got.end());
  };
  EXPECT_EQ(acts({0.5F, 0.5F}), (std::vector<float>{0.5F, 5}));
  EXPECT_EQ(acts({-1.5F, 3}), (std::vector<float>{-1, 6}));
}

TEST(Dmpo, RefusesWhatCannotBe) {
  const auto refusal = [](auto change) {
    Options options = small_options();
    change(options);
    const Status status = validate(options);
    return status.ok() ? "ok" : status.error().message;
  };
  EXPECT_EQ(refusal([](Options&) {}), "ok");
  EXPECT_EQ(refusal([](Options& o) { o.samples = 0; }), "dmpo: samples is 0, expected finite and above 0");
  EXPECT_EQ(refusal([](Options& o) { o.limits.mean = 0; }), "dmpo: limits.mean is 0, expected finite and above 0");
  EXPECT_EQ(refusal([](Options& o) { o.limits.alpha_mean = 1e-8; }),
            "dmpo: limits.alpha_mean is 1e-08, expected finite and above 1e-08");
  EXPECT_EQ(refusal([](Options& o) { o.support.count = 1; }), "dmpo: atoms is 1, expected at least 2");
  EXPECT_EQ(refusal([](Options& o) { o.policy_sizes = {}; }),
            "dmpo: policy_sizes has no layers, expected at least one layer, of positive sizes");
  EXPECT_EQ(refusal([](Options& o) { o.critic_target_period = 0; }),
            "dmpo: critic_target_period is 0, expected finite and above 0");
}

}  // namespace
}  // namespace troupe::learner::dmpo
