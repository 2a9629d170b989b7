// The keys of an optimiser under any prefix, with any defaults, and the rule that each of them makes.
#include <troupe/learner/graph/optimizer_keys.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace troupe::learner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Two optimisers of one algorithm, as an actor-critic's.
ConfigSection two_networks(const std::string& text) {
  ConfigSchema schema = optimizer_keys("learner.policy_", {.learning_rate = 1e-4}, ", of the policy");
  for (ConfigKey& key : optimizer_keys("learner.critic_", {.optimizer = "rmsprop", .gradient_norm_clip = 40})) {
    schema.push_back(std::move(key));
  }
  auto config = parse_config("[learner]\n" + text, "f", {}, schema);
  EXPECT_TRUE(config.ok()) << config.error().message;
  return config->section("learner");
}

OptimizerSpec policy(const std::string& text, std::int64_t steps = 100) {
  return read_optimizer(two_networks(text), "policy_", steps);
}

TEST(OptimizerKeys, EachPrefixHasItsOwnKeysAndDefaults) {
  const ConfigSection section = two_networks("policy_optimizer = 'sgd'");
  const auto of = [&](std::string_view prefix) { return read_optimizer(section, prefix, 100); };
  EXPECT_EQ(std::get<Sgd>(of("policy_").rule).learning_rate, 1e-4);
  EXPECT_EQ(std::get<RmsProp>(of("critic_").rule).learning_rate, 1e-3);
  EXPECT_EQ(of("policy_").max_global_norm, 0);
  EXPECT_EQ(of("critic_").max_global_norm, 40);
  EXPECT_EQ(optimizer_keys("policy_", {}, ", of the policy")[1].doc, "Step size of the optimiser, of the policy");
}

TEST(OptimizerKeys, EveryKeyReachesItsRule) {
  const auto adam = std::get<Adam>(
      policy("policy_learning_rate = 0.5\npolicy_beta1 = 0.25\npolicy_beta2 = 0.75\npolicy_epsilon = 0.125").rule);
  EXPECT_EQ(adam.learning_rate, 0.5);
  EXPECT_EQ(adam.beta1, 0.25);
  EXPECT_EQ(adam.beta2, 0.75);
  EXPECT_EQ(adam.epsilon, 0.125);
  EXPECT_EQ(adam.weight_decay, 0);
  const auto adamw = std::get<Adam>(policy("policy_optimizer = 'adamw'\npolicy_weight_decay = 0.25").rule);
  EXPECT_EQ(adamw.weight_decay, 0.25);

  const std::string momentum = "\npolicy_momentum = 0.5\npolicy_weight_decay = 0.25";
  const auto sgd = std::get<Sgd>(policy("policy_optimizer = 'sgd'" + momentum).rule);
  EXPECT_EQ(sgd.momentum, 0.5);
  EXPECT_EQ(sgd.weight_decay, 0.25);
  EXPECT_TRUE(sgd.nesterov);
  EXPECT_FALSE(std::get<Sgd>(policy("policy_optimizer = 'sgd'\npolicy_momentum = 0").rule).nesterov);
  const auto lars =
      std::get<Lars>(policy("policy_optimizer = 'lars'\npolicy_trust_coefficient = 0.125" + momentum).rule);
  EXPECT_EQ(lars.momentum, 0.5);
  EXPECT_EQ(lars.weight_decay, 0.25);
  EXPECT_EQ(lars.trust_coefficient, 0.125);

  using Form = RmsProp::Form;
  for (const auto& [name, form] : {std::pair{"rmsprop", Form::kPyTorch}, {"rmsprop_tf", Form::kTensorFlow}}) {
    const auto rms = std::get<RmsProp>(
        policy("policy_optimizer = '" + std::string(name) +
               "'\npolicy_rms_decay = 0.5\npolicy_rms_momentum = 0.25\npolicy_epsilon = 0.125" + momentum)
            .rule);
    EXPECT_EQ(rms.form, form);
    EXPECT_EQ(rms.decay, 0.5);
    EXPECT_EQ(rms.momentum, 0.25);
    EXPECT_EQ(rms.epsilon, 0.125);
    EXPECT_EQ(rms.weight_decay, 0.25);
  }
}

TEST(OptimizerKeys, WhateverTheSchemaAllowsIsAValidOptimizer) {
  for (const ConfigKey& key : optimizer_keys("o.", {})) {
    for (const std::string rule : {"adam", "sgd", "rmsprop", "rmsprop_tf", "lars"}) {
      for (const double end : {key.min, key.max}) {
        if (!std::holds_alternative<double>(key.default_value)) continue;
        const std::vector<std::string> set = {"o.optimizer=" + rule, key.path + "=" + to_toml(end)};
        const Config config = parse_config("", "f", set, optimizer_keys("o.", {})).value();
        const Status valid = validate(read_optimizer(config.section("o"), "", 100));
        EXPECT_TRUE(valid.ok()) << set[0] << " " << set[1] << ": " << valid.error().message;
      }
    }
  }
}

TEST(OptimizerKeys, SchedulesAreOverAllSteps) {
  using Kind = Schedule::Kind;
  const Schedule cosine = policy("policy_schedule = 'cosine'\npolicy_warmup_steps = 7").schedule;
  EXPECT_EQ(cosine.kind, Kind::kCosine);
  EXPECT_EQ(cosine.total_steps, 100);
  EXPECT_EQ(cosine.warmup_steps, 7);
  const Schedule step = policy("policy_schedule = 'step'").schedule;
  EXPECT_EQ(step.kind, Kind::kStep);
  EXPECT_THAT(step.boundaries, ElementsAre(50, 75));
  EXPECT_EQ(policy("policy_schedule = 'linear'").schedule.kind, Kind::kLinear);
  const std::string held = "\npolicy_warmup_steps = 7\npolicy_hold_steps = 60";
  EXPECT_EQ(policy("policy_schedule = 'linear'" + held).schedule.hold_steps, 60);
  // A run that is shorter than its warm-up, or than what it holds, down to one step.
  for (const std::string kind : {"cosine", "linear", "step"}) {
    for (const std::int64_t steps : {1, 2, 3, 9, 60, 67}) {
      const auto spec = policy("policy_schedule = '" + kind + "'" + held, steps);
      EXPECT_TRUE(validate(spec).ok()) << kind << " over " << steps;
    }
  }
}

TEST(OptimizerKeys, AdamwWithoutDecayIsAMistake) {
  EXPECT_THAT(optimizer_mistakes(two_networks("policy_optimizer = 'adamw'"), "policy_"),
              ElementsAre("policy_weight_decay: got 0, but without it optimizer \"adamw\" is \"adam\": expected "
                          "more than 0"));
  EXPECT_THAT(optimizer_mistakes(two_networks("policy_optimizer = 'adamw'\npolicy_weight_decay = 0.1"), "policy_"),
              IsEmpty());
  EXPECT_THAT(optimizer_mistakes(two_networks(""), "policy_"), IsEmpty());
}

TEST(OptimizerKeys, UsesNameKeysAndRulesThatThereAre) {
  const ConfigSchema schema = optimizer_keys("", {});
  const auto key = [&](std::string_view path) { return *std::ranges::find(schema, path, &ConfigKey::path); };
  for (const OptimizerKeyUse& use : optimizer_key_uses()) {
    EXPECT_EQ(key(use.key).path, use.key);
    for (const std::string_view value : use.values) {
      EXPECT_THAT(key(use.chooses).choices, ::testing::Contains(value)) << use.key;
    }
  }
}

}  // namespace
}  // namespace troupe::learner
