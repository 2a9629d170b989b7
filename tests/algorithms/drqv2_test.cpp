// DrQ-v2 on drawn pictures: it solves a task whose best policy is known, as D4PG does from pixels, what it publishes is
// what acts, and its keys reach their fields. Against PyTorch: agents_golden_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <troupe/algorithms/d4pg/algorithm.hpp>
#include <troupe/algorithms/drqv2/algorithm.hpp>
#include <troupe/envs/float_actions.hpp>
#include <troupe/learner/replicate/multi_worker.hpp>
#include <troupe/replay/n_step_adder.hpp>
#include <troupe/tests/algorithms/d4pg/batches.hpp>
#include <troupe/tests/run/section.hpp>

namespace troupe {
namespace {

namespace drqv2 = learner::drqv2;
using ::testing::HasSubstr;

constexpr std::int64_t kSide = 24;

/// The task of d4pg/batches.hpp, bring a number to zero, of which a picture is seen: a bar that stands where the number
/// lies in [-1, 1].
envs::EnvSpec painted() {
  return {.name = "painted",
          .observation = {{"pixels", DType::kU8, Shape{kSide, kSide, 1}}},
          .action = envs::ActionSpec::continuous({-1}, {1}),
          .episode_steps = 100,
          .control_dt = 1};
}

/// Between two columns of pixels both are grey.
void paint(double state, std::span<std::uint8_t> picture) {
  const double at = (state + 1) / 2 * (kSide - 1);
  for (std::size_t i = 0; i < picture.size(); ++i) {
    const double distance = std::abs(static_cast<double>(i % kSide) - at);
    picture[i] = static_cast<std::uint8_t>(255 * std::max(0.0, 1 - distance / 2));
  }
}

void fill_painted(Rng& rng, BatchBuffer& buffer) {
  const MutableBatchView& batch = buffer.mutable_view();
  constexpr std::size_t kPicture = kSide * kSide;
  for (std::size_t row = 0; row < static_cast<std::size_t>(batch.rows); ++row) {
    const double state = 2 * rng.uniform() - 1, action = 2 * rng.uniform() - 1;
    paint(state, batch.as<std::uint8_t>(0).subspan(row * kPicture, kPicture));
    batch.as<float>(1)[row] = static_cast<float>(action);
    batch.as<float>(2)[row] = static_cast<float>(1 - state * state);
    batch.as<float>(3)[row] = 0.9F;
    paint(learner::d4pg::steer(state, action), batch.as<std::uint8_t>(4).subspan(row * kPicture, kPicture));
  }
}

Algorithm painter(bool importance_weights = false) {
  const std::vector<std::int64_t> layers{64, 64};
  const auto section = testing::section(drqv2::keys(), {{"filters", std::int64_t{8}},
                                                        {"features", std::int64_t{32}},
                                                        {"policy_layers", layers},
                                                        {"critic_layers", layers},
                                                        {"encoder_learning_rate", 1e-3},
                                                        {"policy_learning_rate", 1e-3},
                                                        {"critic_learning_rate", 1e-3},
                                                        {"target_rate", 0.05},
                                                        {"shift_padding", std::int64_t{1}},
                                                        {"sigma", 0.2}});
  const MakeAlgorithm make = drqv2::algorithm(drqv2::read(section, 0).value());
  return make({.environment = painted(), .importance_weights = importance_weights}).value();
}

Signature batch_columns(const Algorithm& agent, bool importance_weights = false) {
  const envs::EnvSpec wrapped = envs::float_actions(painted()).value();
  return batch_signature(item_signature(agent, wrapped).value(),
                         {.environment = painted(), .importance_weights = importance_weights});
}

std::unique_ptr<learner::Policy> acting_policy(const Algorithm& agent, learner::Program& program, std::int64_t rows) {
  program.begin_snapshot(agent.published).value();
  const learner::Snapshot snapshot = program.snapshot().value().value();
  auto policy = learner::Policy::make(agent.policy, agent.columns, {.rows = rows}).value();
  policy->load(snapshot.values, snapshot.fingerprint).value();
  EXPECT_TRUE(std::ranges::equal(policy->values(), snapshot.values));
  return policy;
}

/// Mean distance of the greedy actions from the best ones over the states -1, -0.9, ..., 1.
double steering_error(learner::Policy& policy) {
  BatchBuffer inputs(policy.columns().inputs, 21), outputs(policy.columns().outputs, 21);
  const auto pictures = inputs.mutable_view().as<std::uint8_t>(0);
  const auto state = [](std::size_t i) { return (static_cast<double>(i) - 10) / 10; };
  for (std::size_t i = 0; i < 21; ++i) paint(state(i), pictures.subspan(i * kSide * kSide, kSide * kSide));
  policy.act(inputs.view(), outputs.mutable_view()).value();
  double error = 0;
  for (std::size_t i = 0; i < 21; ++i) {
    error += std::abs(outputs.view().as<float>(0)[i] - learner::d4pg::best_steering(state(i))) / 21;
  }
  return error;
}

void expect_to_learn_to_steer(const Algorithm& agent) {
  const Signature columns = batch_columns(agent);
  learner::BatchSlot slot(columns);
  const auto replica = agent.make_replica([&](const learner::InputContext&) { return slot.pipeline(); }).value();
  const auto learner = learner::OneDevice::make(*replica, {.batch = 64, .compile = {.seed = 1}}).value();
  EXPECT_GT(steering_error(*acting_policy(agent, learner->program(), 21)), 0.3)
      << "the task must not be solved by the initial policy";
  Rng rng(3);
  BatchBuffer batch(columns, 64);
  for (int step = 0; step < 1000; ++step) {
    fill_painted(rng, batch);
    slot.offer(batch.view()).value();
    learner->step().value();
  }
  EXPECT_LT(steering_error(*acting_policy(agent, learner->program(), 21)), 0.15);
}

TEST(DrqV2, LearnsToSteerFromPictures) { expect_to_learn_to_steer(painter()); }

TEST(D4pgAlgorithm, LearnsToSteerFromPictures) {
  const std::vector<std::int64_t> layers{64, 64};
  const auto section = testing::section(learner::d4pg::keys(), {{"filters", std::int64_t{8}},
                                                                {"features", std::int64_t{32}},
                                                                {"policy_layers", layers},
                                                                {"critic_layers", layers},
                                                                {"encoder_learning_rate", 1e-3},
                                                                {"policy_learning_rate", 1e-3},
                                                                {"critic_learning_rate", 1e-3},
                                                                {"target_update_period", std::int64_t{20}},
                                                                {"v_min", 0.0},
                                                                {"v_max", 10.0},
                                                                {"atoms", std::int64_t{41}},
                                                                {"shift_padding", std::int64_t{1}}});
  const MakeAlgorithm make = learner::d4pg::algorithm(learner::d4pg::read(section, 0).value());
  expect_to_learn_to_steer(make({.environment = painted()}).value());
}

TEST(DrqV2, GivesAPriorityForEachRowAndFollowsItsNoisesSchedule) {
  const Algorithm agent = painter(true);
  const Signature columns = batch_columns(agent, true);
  EXPECT_EQ(columns.back().name, "weight");
  learner::BatchSlot slot(columns);
  const auto replica = agent.make_replica([&](const learner::InputContext&) { return slot.pipeline(); }).value();
  const auto learner = learner::OneDevice::make(*replica, {.batch = 8, .compile = {.stripes = 2}}).value();
  learner::Program& program = learner->program();
  const auto sigma = [&program] {
    const auto names = program.metric_names();
    return program.metrics()[static_cast<std::size_t>(std::ranges::find(names, "sigma") - names.begin())];
  };
  Rng rng(3);
  BatchBuffer batch(columns, 8);
  fill_painted(rng, batch);
  std::ranges::fill(batch.mutable_view().as<float>(5), 1.0F);
  const auto step = [&] {
    slot.offer(batch.view()).value();
    learner->step().value();
  };
  step();
  const auto priorities = program.output(agent.priority);
  ASSERT_EQ(priorities.size(), 8U);
  for (const float priority : priorities) EXPECT_GT(priority, 0);
  // From 0.2 to 0.1 in 500,000 env steps, of which a learner's step is two.
  EXPECT_NEAR(sigma(), 0.2, 1e-7);
  program.state().tensor(*program.state().layout().find("state/drqv2/steps"))[0] = 125'000;
  step();
  EXPECT_NEAR(sigma(), 0.15, 1e-6);
  program.state().tensor(*program.state().layout().find("state/drqv2/steps"))[0] = 1e7F;
  step();
  EXPECT_NEAR(sigma(), 0.1, 1e-7);
}

TEST(DrqV2, PublishesPolicyAndEncoderAndNothingOfTheCritics) {
  const Algorithm agent = painter();
  const auto policy = learner::Policy::make(agent.policy, agent.columns, {}).value();
  for (const learner::ParamEntry& entry : policy->layout().entries) {
    EXPECT_TRUE(entry.name.starts_with("policy/") || entry.name.starts_with("encoder/")) << entry.name;
  }
  EXPECT_NE(policy->layout().find("encoder/conv3/weight"), nullptr);
  EXPECT_NE(policy->layout().find("policy/trunk/weight"), nullptr);
}

TEST(DrqV2, RefusesWhatIsNotOnePicture) {
  const MakeAlgorithm make = drqv2::algorithm({});
  const auto refusal = [&](auto change) {
    envs::EnvSpec spec = painted();
    change(spec);
    const auto made = make({.environment = spec});
    return made.ok() ? "none" : made.error().message;
  };
  EXPECT_EQ(refusal([](envs::EnvSpec& spec) {
              spec.observation.push_back({"goal", DType::kF32, Shape{2}});
            }),
            "painted: drqv2 got the observation pixels: uint8[24, 24, 1], goal: float32[2], expected pixels: "
            "uint8[height, width, channels] and nothing else");
  EXPECT_THAT(refusal([](envs::EnvSpec& spec) { spec.observation[0].dtype = DType::kF32; }),
              HasSubstr("got the observation pixels: float32[24, 24, 1]"));
  EXPECT_THAT(refusal([](envs::EnvSpec& spec) { spec.observation[0].name = "view"; }), HasSubstr("view: uint8"));
  EXPECT_THAT(refusal([](envs::EnvSpec& spec) { spec.action = envs::ActionSpec::discrete(3); }),
              HasSubstr("painted: got the discrete action"));
  EXPECT_EQ(refusal([](envs::EnvSpec& spec) {
              spec.observation[0].shape = {14, 24, 3};
            }),
            "drqv2: got images of [14, 24, 3], expected [height, width, channels] of at least 15x15 pixels");
}

TEST(DrqV2, ActsAtRandomAtFirstAndThenNearItsPolicy) {
  const auto keys = testing::section(drqv2::keys(), {{"random_env_steps", std::int64_t{1000}},
                                                     {"sigma", 0.5},
                                                     {"final_sigma", 0.1},
                                                     {"sigma_env_steps", std::int64_t{20'000}}});
  const Algorithm agent = drqv2::algorithm(drqv2::read(keys, 0).value())({.environment = painted()}).value();
  const auto exploration = agent.explores({.seed = 1, .index = 0, .count = 2}).value();
  BatchBuffer inputs(agent.columns.inputs, 1), outputs(agent.columns.outputs, 1);
  /// Mean square of `steps` actions, where the policy says 0.
  const auto squares = [&](int steps) {
    double sum = 0;
    for (int step = 0; step < steps; ++step) {
      float action = 0;
      exploration->choose({inputs.view(), outputs.view(), 0}, std::as_writable_bytes(std::span(&action, 1))).value();
      sum += static_cast<double>(action) * action;
    }
    return sum / steps;
  };
  EXPECT_NEAR(squares(500), 1.0 / 3, 5 * std::sqrt(4.0 / 45 / 500)) << "uniform, for this environment's half";
  const auto middle = squares(5000) + squares(4500);  // to the last of 20,000 env steps by two environments
  EXPECT_GT(middle, 2 * 0.1 * 0.1);
  EXPECT_NEAR(squares(4000), 0.01, 5 * std::sqrt(2.0 / 4000) * 0.01) << "the last deviation stays";
}

TEST(DrqV2, KeysReachTheirFields) {
  const std::vector<std::pair<std::string, ConfigValue>> values{{"n_step", std::int64_t{15}},
                                                                {"discount", 0.16},
                                                                {"random_env_steps", std::int64_t{17}},
                                                                {"target_rate", 0.18},
                                                                {"sigma", 0.19},
                                                                {"final_sigma", 0.21},
                                                                {"sigma_env_steps", std::int64_t{22}},
                                                                {"env_steps_per_learner_step", 0.23},
                                                                {"noise_clip", 0.24},
                                                                {"shift_padding", std::int64_t{25}},
                                                                {"filters", std::int64_t{28}},
                                                                {"features", std::int64_t{29}},
                                                                {"policy_layers", std::vector<std::int64_t>{26}},
                                                                {"policy_activation", std::string("tanh")},
                                                                {"critic_layers", std::vector<std::int64_t>{27}},
                                                                {"critic_activation", std::string("leaky_relu")},
                                                                {"encoder_learning_rate", 0.33},
                                                                {"policy_learning_rate", 0.31},
                                                                {"critic_learning_rate", 0.32}};
  EXPECT_EQ(drqv2::read(testing::section(drqv2::keys(), {}), 0).value().learner.sigma_env_steps, 500'000);
  const auto got = drqv2::read(testing::section(drqv2::keys(), values), 0).value();
  EXPECT_EQ(got.n_step, 15);
  EXPECT_EQ(got.discount, 0.16);
  EXPECT_EQ(got.random_env_steps, 17);
  EXPECT_EQ(got.learner.target_rate, 0.18);
  EXPECT_EQ(got.learner.sigma, 0.19);
  EXPECT_EQ(got.learner.final_sigma, 0.21);
  EXPECT_EQ(got.learner.sigma_env_steps, 22);
  EXPECT_EQ(got.learner.env_steps_per_learner_step, 0.23);
  EXPECT_EQ(got.learner.noise_clip, 0.24);
  EXPECT_EQ(got.learner.encoder.shift_padding, 25);
  EXPECT_EQ(got.learner.encoder.filters, 28);
  EXPECT_EQ(got.learner.encoder.features, 29);
  EXPECT_EQ(got.learner.policy_sizes, std::vector<std::int64_t>{26});
  EXPECT_EQ(got.learner.policy_activation, learner::Activation::kTanh);
  EXPECT_EQ(got.learner.critic_sizes, std::vector<std::int64_t>{27});
  EXPECT_EQ(got.learner.critic_activation, learner::Activation::kLeakyRelu);
  EXPECT_EQ(std::get<learner::Adam>(got.learner.encoder_optimizer.rule).learning_rate, 0.33);
  EXPECT_EQ(std::get<learner::Adam>(got.learner.policy_optimizer.rule).learning_rate, 0.31);
  EXPECT_EQ(std::get<learner::Adam>(got.learner.critic_optimizer.rule).learning_rate, 0.32);
  drqv2::Options wrong;
  wrong.encoder.pixels = {84, 84, 9};
  wrong.environment = {.observation_size = 84 * 84 * 9, .action_low = {-1}, .action_high = {1}};
  EXPECT_TRUE(validate(wrong).ok());
  wrong.noise_clip = 0;
  EXPECT_EQ(validate(wrong).error().message, "drqv2: noise_clip is 0, expected above 0");
}

}  // namespace
}  // namespace troupe
