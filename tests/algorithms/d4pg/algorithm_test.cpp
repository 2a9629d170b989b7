#include <troupe/algorithms/d4pg/algorithm.hpp>

#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include <troupe/envs/environment.hpp>
#include <troupe/envs/float_actions.hpp>
#include <troupe/learner/engine/policy.hpp>
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
                                        {"critic_gradient_norm_clip", 36.0},
                                        {"shift_padding", std::int64_t{37}},
                                        {"filters", std::int64_t{38}},
                                        {"features", std::int64_t{39}},
                                        {"encoder_learning_rate", 0.33}});  // optimizer_keys_test has the others
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
  EXPECT_EQ(learner.encoder.shift_padding, 37);
  EXPECT_EQ(learner.encoder.filters, 38);
  EXPECT_EQ(learner.encoder.features, 39);
  EXPECT_EQ(std::get<Adam>(learner.encoder_optimizer.rule).learning_rate, 0.33);
  EXPECT_EQ(learner.encoder_optimizer.max_global_norm, 40);
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

envs::EnvSpec pictured() {
  return {.name = "pictured",
          .observation = {{"pixels", DType::kU8, Shape{24, 20, 3}}},
          .action = envs::ActionSpec::continuous({-1}, {1}),
          .episode_steps = 100,
          .control_dt = 1};
}

TEST(D4pgAlgorithm, FromPixelsItemsAreBytesAndTheEncoderIsPublishedToo) {
  for (const bool weighted : {false, true}) {
    const AlgorithmContext context{pictured(), weighted};
    const Algorithm made = algorithm({})(context).value();
    Options options;
    options.encoder.pixels = {24, 20, 3};
    options.environment = {24 * 20 * 3, {-1}, {1}};
    options.importance_weights = weighted;
    EXPECT_EQ(batch_signature(item_signature(made, envs::float_actions(pictured()).value()).value(), context),
              batch_signature(options));
    EXPECT_EQ(batch_signature(options)[0], (TensorSpec{"pixels", DType::kU8, Shape{24, 20, 3}}));
    EXPECT_EQ(made.published, (std::vector<std::string>{"policy", "encoder"}));
    const auto policy = Policy::make(made.policy, made.columns, {}).value();
    EXPECT_NE(policy->layout().find("encoder/conv3/weight"), nullptr);
    EXPECT_NE(policy->layout().find("policy/trunk/weight"), nullptr);
  }
}

TEST(D4pgAlgorithm, RefusesImagesThatItCannotSee) {
  const auto refusal = [](const envs::EnvSpec& spec, AgentOptions options = {}) {
    const auto made = algorithm(std::move(options))({.environment = spec});
    return made.ok() ? "none" : made.error().message;
  };
  envs::EnvSpec mixed = pictured();
  mixed.observation.push_back({"goal", DType::kF32, Shape{2}});
  EXPECT_EQ(refusal(mixed),
            "pictured: d4pg got the observation pixels: uint8[24, 20, 3], goal: float32[2], expected pixels: "
            "uint8[height, width, channels] and nothing else");
  envs::EnvSpec small = pictured();
  small.observation[0].shape = {14, 24, 3};
  EXPECT_EQ(refusal(small),
            "d4pg: got images of [14, 24, 3], expected [height, width, channels] of at least 15x15 pixels");
  AgentOptions normalised;
  normalised.learner.normalise_observations = true;
  EXPECT_EQ(refusal(pictured(), normalised),
            "d4pg: normalise_observations is true with images of [24, 20, 3], expected false: bytes are scaled by "
            "themselves");
}

}  // namespace
}  // namespace troupe::learner::d4pg
