#include <troupe/algorithms/d4pg/options.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <troupe/tests/algorithms/d4pg/batches.hpp>

namespace troupe::learner::d4pg {
namespace {

TEST(D4pgOptions, EveryImpossibleValueIsNamed) {
  const std::vector<std::pair<std::string, std::function<void(Options&)>>> cases = {
      {"observation_size", [](Options& o) { o.environment.observation_size = 0; }},
      {"action_low", [](Options& o) { o.environment.action_low.clear(); }},
      {"action_high",
       [](Options& o) {
         o.environment.action_high = {1, 1};
       }},
      {"action 0", [](Options& o) { o.environment.action_high = {-1}; }},
      {"policy_sizes", [](Options& o) { o.policy_sizes = {}; }},
      {"critic_sizes",
       [](Options& o) {
         o.critic_sizes = {64, 0};
       }},
      {"atoms", [](Options& o) { o.support.count = 1; }},
      {"v_min", [](Options& o) { o.support.low = o.support.high; }},
      {"batch", [](Options& o) { o.batch = 0; }},
      {"learning_rate", [](Options& o) { o.policy_optimizer.rule = Adam{.learning_rate = -1}; }},
      {"learning_rate", [](Options& o) { o.critic_optimizer.rule = Adam{.learning_rate = -1}; }},
      {"target_period", [](Options& o) { o.target_period = 0; }},
      {"dqda_max_norm", [](Options& o) { o.dqda_max_norm = -1; }},
      {"max_global_norm", [](Options& o) { o.critic_optimizer.max_global_norm = -1; }},
  };
  EXPECT_TRUE(validate(steering_options()).ok());
  for (const auto& [name, spoil] : cases) {
    Options options = steering_options();
    spoil(options);
    const Status status = validate(options);
    ASSERT_FALSE(status.ok()) << name;
    EXPECT_EQ(status.error().code, Code::kInvalidArgument) << name;
    EXPECT_NE(status.error().message.find(name), std::string::npos) << status.error().message;
  }
}

TEST(D4pgOptions, WeightsAreTheLastColumn) {
  Options options = steering_options();
  EXPECT_EQ(batch_signature(options).size(), 5U);
  options.importance_weights = true;
  EXPECT_EQ(batch_signature(options).back().name, "weight");
}

}  // namespace
}  // namespace troupe::learner::d4pg
