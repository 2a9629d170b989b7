#include <troupe/algorithms/d4pg/algorithm.hpp>

#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include <troupe/envs/environment.hpp>
#include <troupe/tests/run/section.hpp>

namespace troupe::learner::d4pg {
namespace {

TEST(D4pgAlgorithm, EveryKeyReachesItsField) {
  // Values that no default has, each its own: a key wired to a neighbour's field shows.
  const ConfigSection section =
      troupe::testing::section(keys(), {{"n_step", std::int64_t{15}},
                                        {"discount", 0.16},
                                        {"sigma", 0.18},
                                        {"noise_correlation", 0.85},
                                        {"policy_layers", std::vector<std::int64_t>{26}},
                                        {"policy_activation", std::string("tanh")},
                                        {"critic_layers", std::vector<std::int64_t>{27}},
                                        {"critic_activation", std::string("leaky_relu")},
                                        {"atoms", std::int64_t{28}},
                                        {"v_min", -29.0},
                                        {"v_max", 30.0},
                                        {"target_update_period", std::int64_t{33}},
                                        {"action_gradient_clip", 34.0},
                                        {"normalise_observations", true},
                                        {"policy_learning_rate", 0.31},
                                        {"policy_gradient_norm_clip", 35.0},
                                        {"policy_schedule", std::string("cosine")},
                                        {"critic_optimizer", std::string("sgd")},
                                        {"critic_learning_rate", 0.32},
                                        {"critic_gradient_norm_clip", 36.0}});  // optimizer_keys_test has the others
  const auto got = read(section, 500);
  ASSERT_TRUE(got.ok()) << got.error().message;
  EXPECT_EQ(got->n_step, 15);
  EXPECT_EQ(got->discount, 0.16);
  EXPECT_EQ(got->sigma, 0.18);
  EXPECT_EQ(got->correlation, 0.85);
  const Options& learner = got->learner;
  EXPECT_EQ(learner.policy_sizes, std::vector<std::int64_t>{26});
  EXPECT_EQ(learner.critic_sizes, std::vector<std::int64_t>{27});
  EXPECT_EQ(learner.policy_activation, Activation::kTanh);
  EXPECT_EQ(learner.critic_activation, Activation::kLeakyRelu);
  EXPECT_EQ(learner.support.count, 28);
  EXPECT_EQ(learner.support.low, -29);
  EXPECT_EQ(learner.support.high, 30);
  EXPECT_EQ(learner.target_period, 33);
  EXPECT_EQ(learner.dqda_max_norm, 34);
  EXPECT_TRUE(learner.normalise_observations);
  EXPECT_EQ(std::get<Adam>(learner.policy_optimizer.rule).learning_rate, 0.31);
  EXPECT_EQ(learner.policy_optimizer.max_global_norm, 35);
  EXPECT_EQ(learner.policy_optimizer.schedule.kind, Schedule::Kind::kCosine);
  EXPECT_EQ(learner.policy_optimizer.schedule.total_steps, 500);
  EXPECT_EQ(std::get<Sgd>(learner.critic_optimizer.rule).learning_rate, 0.32);
  EXPECT_EQ(learner.critic_optimizer.max_global_norm, 36);
}

TEST(D4pgAlgorithm, DefaultsAreThoseOfItsOptions) {
  const auto defaults = read(troupe::testing::section(keys()), 0);
  ASSERT_TRUE(defaults.ok()) << defaults.error().message;
  const AgentOptions d;
  EXPECT_EQ(defaults->n_step, d.n_step);
  EXPECT_EQ(defaults->learner.critic_sizes, d.learner.critic_sizes);
  EXPECT_EQ(defaults->learner.policy_activation, Activation::kElu);
  EXPECT_EQ(std::get<Adam>(defaults->learner.policy_optimizer.rule).learning_rate, 1e-4);
  EXPECT_EQ(defaults->learner.policy_optimizer.max_global_norm, d.learner.policy_optimizer.max_global_norm);
}

TEST(D4pgAlgorithm, AScheduleWantsAnEnd) {
  const ConfigSection section = troupe::testing::section(keys(), {{"critic_schedule", std::string("linear")}});
  EXPECT_EQ(read(section, 0).error().message,
            "critic_schedule: got \"linear\" without max_learner_steps, expected that limit or \"constant\"");
  EXPECT_TRUE(read(section, 100).ok());
}

TEST(D4pgAlgorithm, ItemsAndBatchesAreWhatItsReplicaTakes) {
  const auto environment = envs::make_environment("cartpole-swingup", 1).value();
  for (const bool weighted : {false, true}) {
    const AlgorithmContext context{environment->spec(), weighted};
    const Algorithm made = algorithm({})(context).value();
    const auto wrapped = made.wrap(envs::shared_environments("cartpole-swingup"))(1).value();
    Options options;
    options.environment = {5, {-1}, {1}};
    options.importance_weights = weighted;
    EXPECT_EQ(batch_signature(item_signature(made, wrapped->spec()).value(), context), batch_signature(options));
  }
}

}  // namespace
}  // namespace troupe::learner::d4pg
