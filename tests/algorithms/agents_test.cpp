// What agents of continuous control have alike, each tried with every one of them: they solve a task whose best policy
// is known, and their keys reach their fields.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <troupe/algorithms/acting/gaussian_draw.hpp>
#include <troupe/algorithms/control/reward_scale.hpp>
#include <troupe/algorithms/dmpo/algorithm.hpp>
#include <troupe/algorithms/flashsac/algorithm.hpp>
#include <troupe/algorithms/sac/algorithm.hpp>
#include <troupe/algorithms/td3/algorithm.hpp>
#include <troupe/envs/flattened.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/replicate/device_replicas.hpp>
#include <troupe/learner/replicate/multi_worker.hpp>
#include <troupe/tests/algorithms/d4pg/batches.hpp>
#include <troupe/tests/run/section.hpp>

namespace troupe {
namespace {

using learner::control::transitions;

/// The environment of d4pg/batches.hpp: bring a number to zero.
envs::EnvSpec steering() {
  return {.name = "steering",
          .observation = {{"state", DType::kF64, Shape{1}}},
          .action = envs::ActionSpec::continuous({-1}, {1}),
          .episode_steps = 100,
          .control_dt = 1};
}

struct AgentCase {
  std::string name;
  ConfigSchema (*keys)();
  Result<MakeAlgorithm> (*make)(const ConfigSection& keys);
  std::vector<std::pair<std::string, ConfigValue>> small;  ///< what learns to steer within a few thousand steps
  double error;                                            ///< how far from the best actions it is then
  bool random_at_first;                                    ///< it has the key random_env_steps
  bool normalises = true;                                  ///< it has the key normalise_observations
};

template <auto kRead, auto kAlgorithm>
Result<MakeAlgorithm> made_of(const ConfigSection& keys) {
  TROUPE_ASSIGN(auto options, kRead(keys, 0));
  return kAlgorithm(std::move(options));
}

std::vector<AgentCase> agents() {
  const std::vector<std::int64_t> layers{32, 32};
  const std::vector<std::pair<std::string, ConfigValue>> small{{"policy_layers", layers},
                                                               {"critic_layers", layers},
                                                               {"policy_learning_rate", 1e-3},
                                                               {"critic_learning_rate", 1e-3}};
  auto soft = small, distributional = small;
  soft.emplace_back("target_rate", 0.02);
  distributional.insert(distributional.end(), {{"v_min", 0.0},
                                               {"v_max", 10.0},
                                               {"atoms", std::int64_t{41}},
                                               {"samples", std::int64_t{10}},
                                               {"policy_target_update_period", std::int64_t{20}},
                                               {"critic_target_update_period", std::int64_t{20}}});
  const std::vector<std::pair<std::string, ConfigValue>> unit{{"policy_blocks", std::int64_t{1}},
                                                              {"policy_width", std::int64_t{16}},
                                                              {"critic_blocks", std::int64_t{1}},
                                                              {"critic_width", std::int64_t{16}},
                                                              {"policy_learning_rate", 1e-3},
                                                              {"critic_learning_rate", 1e-3},
                                                              {"temperature_learning_rate", 1e-3},
                                                              {"v_min", 0.0},
                                                              {"v_max", 10.0},
                                                              {"atoms", std::int64_t{41}},
                                                              {"scale_rewards", false}};  // no returns in these batches
  return {{"td3", learner::td3::keys, made_of<learner::td3::read, learner::td3::algorithm>, soft, 0.15, true},
          // The entropy that it keeps is worth more than the best action at the bounds.
          {"sac", learner::sac::keys, made_of<learner::sac::read, learner::sac::algorithm>, soft, 0.25, true},
          {"dmpo", learner::dmpo::keys, made_of<learner::dmpo::read, learner::dmpo::algorithm>, distributional, 0.15,
           false},
          {"flashsac", learner::flashsac::keys, made_of<learner::flashsac::read, learner::flashsac::algorithm>, unit,
           0.25, true, false}};
}
void PrintTo(const AgentCase& agent, std::ostream* out) { *out << agent.name; }

class EveryAgent : public ::testing::TestWithParam<AgentCase> {
 protected:
  Algorithm algorithm(bool importance_weights = false, bool normalise = false) const {
    const AgentCase& of = GetParam();
    auto values = of.small;
    if (of.normalises) values.emplace_back("normalise_observations", normalise);
    const auto make = of.make(testing::section(of.keys(), values));
    EXPECT_TRUE(make.ok()) << make.error().message;
    auto made = (*make)({.environment = steering(), .importance_weights = importance_weights});
    EXPECT_TRUE(made.ok()) << made.error().message;
    return std::move(made).value();
  }
};

/// Mean distance of the greedy actions from the best ones over the states -1, -0.9, ..., 1.
double steering_error(const Algorithm& algorithm, learner::Program& program) {
  const auto policy = learner::Policy::make(algorithm.policy, algorithm.columns, {.rows = 21}).value();
  program.begin_snapshot(algorithm.published).value();
  const learner::Snapshot snapshot = program.snapshot().value().value();
  policy->load(snapshot.values, snapshot.fingerprint).value();
  BatchBuffer inputs(policy->columns().inputs, 21), outputs(policy->columns().outputs, 21);
  for (int i = 0; i < 21; ++i) inputs.mutable_view().as<float>(0)[static_cast<std::size_t>(i)] = (i - 10) / 10.0F;
  policy->act(inputs.view(), outputs.mutable_view()).value();
  double error = 0;
  for (std::size_t i = 0; i < 21; ++i) {
    const double best = learner::d4pg::best_steering(inputs.view().as<float>(0)[i]);
    error += std::abs(outputs.view().as<float>(0)[i] - best) / 21;
  }
  return error;
}

TEST_P(EveryAgent, LearnsToSteerOnOneStripeAndTwo) {
  const Algorithm agent = algorithm();
  const Signature columns = batch_signature(item_signature(agent, envs::flattened(steering()).value()).value(), {});
  for (const int stripes : {1, 2}) {
    learner::BatchSlot slot(columns);
    const auto replica = agent.make_replica([&](const learner::InputContext&) { return slot.pipeline(); }).value();
    const auto learner =
        learner::OneDevice::make(*replica, {.batch = 64, .compile = {.stripes = stripes, .seed = 1}}).value();
    EXPECT_GT(steering_error(agent, learner->program()), 0.3) << "the task must not be solved by the initial policy";
    Rng rng(3);
    BatchBuffer batch(columns, 64);
    for (int step = 0; step < 2000; ++step) {
      learner::d4pg::fill_steering(rng, batch);
      slot.offer(batch.view()).value();
      learner->step().value();
    }
    EXPECT_LT(steering_error(agent, learner->program()), GetParam().error) << stripes << " stripes";
  }
}

TEST_P(EveryAgent, GivesAPriorityForEachRow) {
  const Algorithm agent = algorithm(true);
  const AlgorithmContext context{.environment = steering(), .importance_weights = true};
  const Signature columns =
      batch_signature(item_signature(agent, envs::flattened(steering()).value()).value(), context);
  EXPECT_EQ(columns.back().name, "weight");
  learner::BatchSlot slot(columns);
  const auto replica = agent.make_replica([&](const learner::InputContext&) { return slot.pipeline(); }).value();
  const auto learner = learner::OneDevice::make(*replica, {.batch = 16}).value();
  Rng rng(3);
  BatchBuffer batch(columns, 16);
  learner::d4pg::fill_random(rng, batch);
  slot.offer(batch.view()).value();
  learner->step().value();
  const auto priorities = learner->program().output(agent.priority);
  ASSERT_EQ(priorities.size(), 16U);
  for (const float priority : priorities) EXPECT_GT(priority, 0);
}

TEST_P(EveryAgent, LearnsFromBatchesOfOneRow) {
  const Algorithm agent = algorithm(false, true);
  const Signature columns = batch_signature(item_signature(agent, envs::flattened(steering()).value()).value(), {});
  learner::BatchSlot slot(columns);
  const auto replica = agent.make_replica([&](const learner::InputContext&) { return slot.pipeline(); }).value();
  const auto learner = learner::OneDevice::make(*replica, {.batch = 1});
  ASSERT_TRUE(learner.ok()) << learner.error().message;
  Rng rng(3);
  BatchBuffer batch(columns, 1);
  for (int step = 0; step < 3; ++step) {
    learner::d4pg::fill_steering(rng, batch);
    slot.offer(batch.view()).value();
    (*learner)->step().value();
  }
  EXPECT_EQ((*learner)->program().step(), 3);
}

TEST_P(EveryAgent, PublishesTheStatisticsThatItNormalisesWith) {
  if (!GetParam().normalises) GTEST_SKIP() << "its networks have batch norm instead";
  const Algorithm agent = algorithm(false, true);
  const Signature columns = batch_signature(item_signature(agent, envs::flattened(steering()).value()).value(), {});
  learner::BatchSlot slot(columns);
  const auto replica = agent.make_replica([&](const learner::InputContext&) { return slot.pipeline(); }).value();
  const auto learner = learner::OneDevice::make(*replica, {.batch = 64, .compile = {.stripes = 2}}).value();
  Rng rng(3);
  BatchBuffer batch(columns, 64);
  double sum = 0, squares = 0;
  constexpr int kSteps = 20;
  for (int step = 0; step < kSteps; ++step) {
    learner::d4pg::fill_steering(rng, batch);
    for (float& x : batch.mutable_view().as<float>(0)) {
      x = 1000 + 3 * x;  // far from 0, in which sums of squares lose their digits
      sum += x - 1000;
      squares += (x - 1000) * (x - 1000);
    }
    slot.offer(batch.view()).value();
    learner->step().value();
  }
  learner->program().begin_snapshot(agent.published).value();
  const learner::Snapshot snapshot = learner->program().snapshot().value().value();
  const auto policy = learner::Policy::make(agent.policy, agent.columns, {}).value();
  ASSERT_TRUE(policy->load(snapshot.values, snapshot.fingerprint).ok());
  EXPECT_TRUE(std::ranges::equal(policy->values(), snapshot.values));
  const auto published = [&](const std::string& name) {
    const std::string state = "state/" + agent.published.front() + "/observation/" + name;
    return snapshot.values[static_cast<std::size_t>(policy->layout().find(state)->offset)];
  };
  const double count = kSteps * 64, mean = sum / count;
  EXPECT_NEAR(published("mean"), 1000 + mean, 1e-3);  // of 1,280 numbers, in float32 around 1000
  // The first batch's variance is a difference of squares of 1,000: 0.06 off at most, in one of twenty batches.
  EXPECT_NEAR(published("variance"), squares / count - mean * mean, 4e-3);
  EXPECT_EQ(published("batches"), kSteps);
  const auto plain = learner::Policy::make(algorithm().policy, agent.columns, {}).value();
  EXPECT_EQ(plain->load(snapshot.values, snapshot.fingerprint).error().code, Code::kShapeMismatch);
}

TEST_P(EveryAgent, ActsWithinBoundsAndAtRandomAtFirst) {
  const Algorithm agent = algorithm();
  const auto exploration = agent.explores({.seed = 1, .index = 0, .count = 1}).value();
  BatchBuffer inputs(agent.columns.inputs, 1), outputs(agent.columns.outputs, 1);
  for (std::size_t c = 0; c < agent.columns.outputs.size(); ++c) outputs.mutable_view().as<float>(c)[0] = 2;
  double sum = 0, squares = 0;
  constexpr int kSteps = 2000;
  for (int step = 0; step < kSteps; ++step) {
    float action = 0;
    const acting::PolicyRow row{inputs.view(), outputs.view(), 0, step == 0};
    exploration->choose(row, std::as_writable_bytes(std::span(&action, 1))).value();
    ASSERT_TRUE(action >= -1 && action <= 1) << action;
    sum += action;
    squares += action * action;
  }
  if (!GetParam().random_at_first) return;
  // Uniform in [-1, 1], whatever the policy says: five standard errors.
  EXPECT_NEAR(sum / kSteps, 0, 5 * std::sqrt(1.0 / 3 / kSteps));
  EXPECT_NEAR(squares / kSteps, 1.0 / 3, 5 * std::sqrt(4.0 / 45 / kSteps));
}

TEST_P(EveryAgent, RefusesAnEnvironmentOfChoices) {
  const AgentCase& of = GetParam();
  envs::EnvSpec spec = steering();
  spec.action = envs::ActionSpec::discrete(3);
  const auto made = of.make(testing::section(of.keys(), {})).value()({.environment = spec});
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.error().message, ::testing::HasSubstr("steering"));
}

TEST_P(EveryAgent, GoesOnFromItsExplorationsState) {
  const Algorithm agent = algorithm();
  const auto first = agent.explores({.seed = 1, .index = 0, .count = 4000}).value();  // random in 7 steps at most
  const auto second = agent.explores({.seed = 2, .index = 1, .count = 4000}).value();
  BatchBuffer inputs(agent.columns.inputs, 1), outputs(agent.columns.outputs, 1);
  for (std::size_t c = 0; c < agent.columns.outputs.size(); ++c) outputs.mutable_view().as<float>(c)[0] = 0.25F;
  const auto acts = [&](acting::Exploration& exploration) {
    float action = 0;
    exploration.choose({inputs.view(), outputs.view(), 0}, std::as_writable_bytes(std::span(&action, 1))).value();
    return action;
  };
  for (const int steps : {1, 10}) {
    for (int step = 0; step < steps; ++step) acts(*first);
    EXPECT_NE(acts(*first), acts(*second));
    ASSERT_TRUE(second->restore_state(first->save_state()).ok());
    for (int step = 0; step < 3; ++step) EXPECT_EQ(acts(*first), acts(*second));
  }
  const auto before = second->save_state();
  EXPECT_EQ(second->restore_state(std::vector<std::byte>(3)).error().code, Code::kCorrupt);
  EXPECT_EQ(second->restore_state(std::vector<std::byte>(before.size() + 1)).error().code, Code::kCorrupt);
  EXPECT_EQ(second->save_state(), before);
}

/// Values that no default has, each its own: a key wired to a neighbour's field shows.
const std::vector<std::pair<std::string, ConfigValue>> kCommon{{"n_step", std::int64_t{15}},
                                                               {"discount", 0.16},
                                                               {"normalise_observations", true},
                                                               {"policy_layers", std::vector<std::int64_t>{26}},
                                                               {"policy_activation", std::string("tanh")},
                                                               {"critic_layers", std::vector<std::int64_t>{27}},
                                                               {"critic_activation", std::string("leaky_relu")},
                                                               {"policy_learning_rate", 0.31},
                                                               {"critic_learning_rate", 0.32}};

/// Of agents whose targets follow softly, and that begin at random.
const std::vector<std::pair<std::string, ConfigValue>> kSoft{
    {"random_env_steps", std::int64_t{17}}, {"target_rate", 0.18}, {"policy_update_period", std::int64_t{19}}};

template <typename AgentOptions>
void expect_common(const AgentOptions& got) {
  EXPECT_EQ(got.n_step, 15);
  EXPECT_EQ(got.discount, 0.16);
  EXPECT_TRUE(got.learner.normalise_observations);
  EXPECT_EQ(got.learner.policy_sizes, std::vector<std::int64_t>{26});
  EXPECT_EQ(got.learner.policy_activation, learner::Activation::kTanh);
  EXPECT_EQ(got.learner.critic_sizes, std::vector<std::int64_t>{27});
  EXPECT_EQ(got.learner.critic_activation, learner::Activation::kLeakyRelu);
  EXPECT_EQ(std::get<learner::Adam>(got.learner.policy_optimizer.rule).learning_rate, 0.31);
  EXPECT_EQ(std::get<learner::Adam>(got.learner.critic_optimizer.rule).learning_rate, 0.32);
}

template <typename AgentOptions>
void expect_soft(const AgentOptions& got) {
  EXPECT_EQ(got.random_env_steps, 17);
  EXPECT_EQ(got.learner.target_rate, 0.18);
  EXPECT_EQ(got.learner.policy_period, 19);
}

TEST(AgentKeys, OfTd3ReachTheirFields) {
  auto values = kCommon;
  values.insert(values.end(), kSoft.begin(), kSoft.end());
  values.insert(values.end(), {{"sigma", 0.21}, {"target_noise", 0.22}, {"target_noise_clip", 0.23}});
  const auto got = learner::td3::read(testing::section(learner::td3::keys(), values), 0).value();
  expect_common(got);
  expect_soft(got);
  EXPECT_EQ(got.sigma, 0.21);
  EXPECT_EQ(got.learner.target_noise, 0.22);
  EXPECT_EQ(got.learner.target_noise_clip, 0.23);
}

TEST(AgentKeys, OfSacReachTheirFields) {
  auto values = kCommon;
  values.insert(values.end(), kSoft.begin(), kSoft.end());
  values.insert(values.end(), {{"temperature", 0.21}, {"temperature_learning_rate", 0.22}, {"target_entropy", -0.23}});
  const auto got = learner::sac::read(testing::section(learner::sac::keys(), values), 0).value();
  expect_common(got);
  expect_soft(got);
  EXPECT_EQ(got.learner.temperature, 0.21);
  EXPECT_EQ(got.learner.temperature_learning_rate, 0.22);
  EXPECT_EQ(got.learner.target_entropy, -0.23);
}

TEST(AgentKeys, OfFlashSacReachTheirFields) {
  const std::vector<std::pair<std::string, ConfigValue>> values{{"n_step", std::int64_t{15}},
                                                                {"discount", 0.16},
                                                                {"random_env_steps", std::int64_t{17}},
                                                                {"noise_repeats_max", std::int64_t{18}},
                                                                {"noise_repeats_exponent", 1.9},
                                                                {"policy_blocks", std::int64_t{20}},
                                                                {"policy_width", std::int64_t{21}},
                                                                {"critic_blocks", std::int64_t{22}},
                                                                {"critic_width", std::int64_t{23}},
                                                                {"target_rate", 0.24},
                                                                {"policy_update_period", std::int64_t{4}},
                                                                {"temperature", 0.26},
                                                                {"temperature_learning_rate", 0.27},
                                                                {"target_stddev", 0.28},
                                                                {"final_learning_rate_factor", 0.29},
                                                                {"norm_momentum", 0.31},
                                                                {"scale_rewards", false},
                                                                {"atoms", std::int64_t{53}},
                                                                {"v_min", -54.0},
                                                                {"v_max", 55.0},
                                                                {"policy_schedule", std::string("cosine")},
                                                                {"policy_learning_rate", 0.32},
                                                                {"critic_schedule", std::string("linear")},
                                                                {"critic_learning_rate", 0.33}};
  const auto got = learner::flashsac::read(testing::section(learner::flashsac::keys(), values), 1000).value();
  EXPECT_EQ(got.n_step, 15);
  EXPECT_EQ(got.discount, 0.16);
  EXPECT_EQ(got.random_env_steps, 17);
  EXPECT_EQ(got.noise.most, 18);
  EXPECT_EQ(got.noise.exponent, 1.9);
  const learner::flashsac::Options& learner = got.learner;
  EXPECT_EQ(learner.policy.blocks, 20);
  EXPECT_EQ(learner.policy.width, 21);
  EXPECT_EQ(learner.critic.blocks, 22);
  EXPECT_EQ(learner.critic.width, 23);
  EXPECT_EQ(learner.target_rate, 0.24);
  EXPECT_EQ(learner.policy_period, 4);
  EXPECT_EQ(learner.temperature, 0.26);
  EXPECT_EQ(learner.target_stddev, 0.28);
  EXPECT_EQ(learner.norm_momentum, 0.31);
  EXPECT_FALSE(learner.scale_rewards);
  EXPECT_EQ(learner.support.count, 53);
  EXPECT_EQ(learner.support.low, -54);
  EXPECT_EQ(learner.support.high, 55);
  EXPECT_EQ(std::get<learner::Adam>(learner.policy_optimizer.rule).learning_rate, 0.32);
  EXPECT_EQ(std::get<learner::Adam>(learner.critic_optimizer.rule).learning_rate, 0.33);
  EXPECT_EQ(std::get<learner::Adam>(learner.temperature_optimizer.rule).learning_rate, 0.27);
  EXPECT_EQ(learner.policy_optimizer.schedule.total_steps, 1000);
  EXPECT_EQ(learner.temperature_optimizer.schedule.total_steps, 1000);
  EXPECT_EQ(learner.critic_optimizer.schedule.total_steps, 1000);
  EXPECT_EQ(learner.policy_optimizer.schedule.final_factor, 0.29);
  EXPECT_EQ(learner.critic_optimizer.schedule.final_factor, 0.29);
}

TEST(AgentKeys, OfDmpoReachTheirFields) {
  auto values = kCommon;
  values.insert(values.end(), {{"samples", std::int64_t{41}},
                               {"action_penalization", false},
                               {"dual_learning_rate", 0.42},
                               {"policy_target_update_period", std::int64_t{43}},
                               {"critic_target_update_period", std::int64_t{44}},
                               {"epsilon", 0.45},
                               {"epsilon_penalty", 0.46},
                               {"epsilon_mean", 0.47},
                               {"epsilon_stddev", 0.48},
                               {"temperature", 0.49},
                               {"alpha_mean", 0.51},
                               {"alpha_stddev", 0.52},
                               {"atoms", std::int64_t{53}},
                               {"v_min", -54.0},
                               {"v_max", 55.0},
                               {"policy_gradient_norm_clip", 0.56},
                               {"critic_gradient_norm_clip", 0.57}});
  const auto got = learner::dmpo::read(testing::section(learner::dmpo::keys(), values), 0).value();
  expect_common(got);
  const learner::dmpo::Options& learner = got.learner;
  EXPECT_EQ(learner.samples, 41);
  EXPECT_FALSE(learner.action_penalization);
  EXPECT_EQ(learner.dual_learning_rate, 0.42);
  EXPECT_EQ(learner.policy_target_period, 43);
  EXPECT_EQ(learner.critic_target_period, 44);
  EXPECT_EQ(learner.limits.samples, 0.45);
  EXPECT_EQ(learner.limits.penalty, 0.46);
  EXPECT_EQ(learner.limits.mean, 0.47);
  EXPECT_EQ(learner.limits.stddev, 0.48);
  EXPECT_EQ(learner.limits.temperature, 0.49);
  EXPECT_EQ(learner.limits.alpha_mean, 0.51);
  EXPECT_EQ(learner.limits.alpha_stddev, 0.52);
  EXPECT_EQ(learner.support.count, 53);
  EXPECT_EQ(learner.support.low, -54);
  EXPECT_EQ(learner.support.high, 55);
  EXPECT_EQ(learner.policy_optimizer.max_global_norm, 0.56);
  EXPECT_EQ(learner.critic_optimizer.max_global_norm, 0.57);
}

TEST(RewardScale, IsThatOfTheReturnsSoFarWhateverTheStripesAndReplicas) {
  const Signature columns{{"reward", DType::kF32, Shape{}}, {"return", DType::kF32, Shape{}}};
  constexpr std::int64_t kRows = 8;
  constexpr double kMost = 5;
  learner::BatchSlot slot(columns);
  const auto replica =
      learner::make_replica([&](const learner::InputContext& context) { return slot.pipeline(context); },
                            [](learner::ReplicaContext& context, const learner::StepInputs& inputs) {
                              learner::Graph& graph = context.graph();
                              learner::control::learn_returns(context, inputs["return"]);
                              graph.output("scaled", learner::control::scaled_rewards(graph, inputs["reward"], kMost));
                              const learner::Var unused = graph.param(graph.group("unused"), "x", Shape{}, {});
                              graph.minimize(learner::square(unused), graph.group("unused"),
                                             context.wrap_optimizer({.rule = learner::Sgd{}}));
                            });
  std::vector<std::unique_ptr<learner::Replicator>> groups;
  for (const int stripes : {1, 4}) {
    groups.push_back(learner::OneDevice::make(*replica, {.batch = kRows, .compile = {.stripes = stripes}}).value());
  }
  groups.push_back(learner::MultiDevice::make(*replica, {.replicas = 2, .global_batch = kRows}).value());
  Rng rng(5);
  BatchBuffer batch(columns, kRows);
  std::vector<double> seen;
  double peak = 0;
  for (int step = 0; step < 4; ++step) {
    for (std::size_t row = 0; row < kRows; ++row) {
      const double value = 50 + (step == 2 ? 30 : 3) * rng.normal();
      batch.mutable_view().as<float>(0)[row] = static_cast<float>(row + 1);
      batch.mutable_view().as<float>(1)[row] = static_cast<float>(step % 2 == 0 ? value : -value);
      seen.push_back(batch.view().as<float>(1)[row]);
      peak = std::max(peak, std::abs(seen.back()));
    }
    double mean = 0, variance = 0;
    for (const double value : seen) mean += value / static_cast<double>(seen.size());
    for (const double value : seen) variance += (value - mean) * (value - mean) / static_cast<double>(seen.size());
    const double expected = std::max(std::sqrt(variance + 1e-8), peak / kMost);
    for (const auto& group : groups) {
      slot.offer(batch.view()).value();
      group->step().value();
      const std::span<const float> scaled = group->program().output("scaled");  // of a group, the first one's rows
      ASSERT_GE(scaled.size(), kRows / 2);
      for (std::size_t row = 0; row < scaled.size(); ++row) {
        EXPECT_NEAR(scaled[row], (static_cast<double>(row) + 1) / expected, 1e-4) << step << ' ' << row;
      }
    }
  }
}

/// A policy that says the same Gaussian of two dimensions always.
struct ConstantGaussian {
  ConstantGaussian(const std::vector<float>& mean, const std::vector<float>& stddev)
      : outputs({{"mean", DType::kF32, Shape{2}}, {"stddev", DType::kF32, Shape{2}}}, 1) {
    std::ranges::copy(mean, outputs.mutable_view().as<float>(0).begin());
    std::ranges::copy(stddev, outputs.mutable_view().as<float>(1).begin());
  }
  void act(acting::Exploration& exploration, std::span<float> action) const {
    exploration.choose({outputs.view(), outputs.view(), 0}, std::as_writable_bytes(action)).value();
  }
  BatchBuffer outputs;
};

TEST(TanhGaussian, DrawsWhatThePolicySays) {
  const auto exploration = acting::tanh_gaussian({-2, 0}, {2, 10})({.seed = 1}).value();
  const ConstantGaussian policy({0.5F, -0.25F}, {0.5F, 1e-6F});
  double sum = 0, squares = 0;
  constexpr int kSteps = 10'000;
  for (int step = 0; step < kSteps; ++step) {
    float action[2];
    policy.act(*exploration, action);
    EXPECT_NEAR(action[1], 5 + 5 * std::tanh(-0.25), 1e-4);
    const double before = std::atanh(action[0] / 2.0);
    sum += before;
    squares += (before - 0.5) * (before - 0.5);
  }
  EXPECT_NEAR(sum / kSteps, 0.5, 5 * 0.5 / std::sqrt(kSteps));
  EXPECT_NEAR(squares / kSteps, 0.25, 5 * 0.25 * std::sqrt(2.0 / kSteps));
}

TEST(TanhGaussian, HoldsItsNoiseForAsManySteps) {
  const auto make = acting::tanh_gaussian({-1, -1}, {1, 1}, {.most = 4, .exponent = 2});
  const auto exploration = make({.seed = 1}).value();
  const ConstantGaussian policy({0, 0}, {0.5F, 0.5F});
  std::vector<int> lengths(5);
  constexpr int kDraws = 10'000;
  float held[2] = {2, 2}, action[2];
  int length = 0;
  for (int draws = 0; draws <= kDraws;) {
    policy.act(*exploration, action);
    if (action[0] == held[0] && action[1] == held[1]) {
      ++length;
      continue;
    }
    if (draws++ > 0) ++lengths.at(static_cast<std::size_t>(length));
    std::ranges::copy(action, held);
    length = 1;
  }
  const double all = 1 + 1 / 4.0 + 1 / 9.0 + 1 / 16.0;
  for (int n = 1; n <= 4; ++n) {
    const double share = 1 / (n * n * all);
    EXPECT_NEAR(lengths[static_cast<std::size_t>(n)], kDraws * share, 5 * std::sqrt(kDraws * share * (1 - share))) << n;
  }
  // Also in the midst of it the state says all.
  const auto other = make({.seed = 2}).value();
  for (int step = 0; step < 20; ++step) {
    ASSERT_TRUE(other->restore_state(exploration->save_state()).ok());
    float again[2];
    policy.act(*exploration, action);
    policy.act(*other, again);
    EXPECT_TRUE(std::ranges::equal(action, again)) << step;
  }
  EXPECT_THAT(acting::tanh_gaussian({-1}, {1}, {.most = 0})({}).error().message,
              ::testing::HasSubstr("held for 0 steps at most"));
}

TEST(TanhGaussian, SaysWhatIsWrongWithItsBounds) {
  EXPECT_THAT(acting::tanh_gaussian({1}, {1})({}).error().message,
              ::testing::HasSubstr("bounds of action 0 are [1, 1]"));
}

TEST(ClippedGaussian, DrawsWhatThePolicySaysAndStopsAtTheBounds) {
  const auto exploration = acting::clipped_gaussian({-2, 0}, {2, 10})({.seed = 1}).value();
  const ConstantGaussian policy({1, -0.25F}, {0.5F, 1e-6F});
  int at_bound = 0;
  double squares = 0;
  constexpr int kSteps = 10'000;
  for (int step = 0; step < kSteps; ++step) {
    float action[2];
    policy.act(*exploration, action);
    EXPECT_NEAR(action[1], 5 - 5 * 0.25, 1e-4);
    ASSERT_TRUE(action[0] >= -2 && action[0] <= 2) << action[0];
    at_bound += action[0] == 2;
    squares += (action[0] / 2.0 - 1) * (action[0] / 2.0 - 1);
  }
  // The mean is at the bound, so half of the draws are; the others have half of the variance. Five standard errors.
  EXPECT_NEAR(at_bound, kSteps / 2, 5 * std::sqrt(kSteps / 4));
  EXPECT_NEAR(squares / kSteps, 0.125, 5 * 0.25 * std::sqrt(1.25 / kSteps));
}

INSTANTIATE_TEST_SUITE_P(Agents, EveryAgent, ::testing::ValuesIn(agents()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace troupe
