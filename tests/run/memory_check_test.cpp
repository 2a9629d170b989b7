#include <troupe/run/memory_check.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include <troupe/algorithms/d4pg/algorithm.hpp>

namespace troupe::apps {
namespace {

using ::testing::HasSubstr;

void set_layers(actors::TrainOptions& options, std::vector<std::int64_t> sizes) {
  learner::d4pg::AgentOptions d4pg;
  d4pg.learner.policy_sizes = std::move(sizes);
  options.agents[0].make_algorithm = learner::d4pg::algorithm(std::move(d4pg));
}

actors::TrainOptions run_of(std::int64_t env_actors) {
  actors::TrainOptions options;
  options.agents.emplace_back();
  options.agents[0].env = "cartpole-swingup";
  options.agents[0].make_environment = envs::shared_environments("cartpole-swingup");
  options.agents[0].actors.count = env_actors;
  set_layers(options, {256, 256, 256});
  return options;
}

TEST(MemoryCheck, RefusesWhatCannotFitAndNamesWhatHelps) {
  EXPECT_TRUE(check_memory(run_of(4), 1, {8'000'000'000, 0}).ok());
  const Status refused = check_memory(run_of(100'000), 1, {8'000'000'000, 0});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("100000 env actors in 1 process need at least"));
  EXPECT_THAT(refused.error().message, HasSubstr("8.0 GB are free; take fewer (actors.count, actors.envs_per_actor)"));
  EXPECT_TRUE(check_memory(run_of(100'000), 1, {}).ok()) << "nobody can tell";
  const Status narrow = check_memory(run_of(1000), 1, {8'000'000'000, 4'000'000'000});
  ASSERT_FALSE(narrow.ok());
  EXPECT_THAT(narrow.error().message, HasSubstr("of address space, and 4.0 GB are allowed (ulimit -v); take fewer"));
  EXPECT_TRUE(check_memory(run_of(1000), 20, {8'000'000'000, 4'000'000'000}).ok()) << "each process has as many";
}

TEST(MemoryCheck, CountsPoliciesThatEnvActorsHaveThemselvesAndProcesses) {
  actors::TrainOptions options = run_of(100);
  const std::uint64_t local = least_memory(options, 1);
  EXPECT_GT(least_memory(options, 5), local);
  options.agents[0].actors.envs_per_actor = 4096;
  EXPECT_GT(least_memory(options, 1), local + 100 * 4095 * std::uint64_t{100'000});
  options.agents[0].actors.envs_per_actor = 1;
  set_layers(options, {4096, 4096});
  EXPECT_GT(least_memory(options, 1), local + 100 * 4096 * 4096 * sizeof(float));
  options.agents[0].actors.inference = "server";
  EXPECT_LT(least_memory(options, 1), local);
  EXPECT_EQ(least_memory({.replicas = {{}}}, 1), 0u) << "there are no env actors";
}

TEST(MemoryCheck, CountsReplayOnADeviceOfTheHost) {
  actors::TrainOptions options = run_of(1);
  options.agents[0].replay.max_items = 1'000'000'000;
  options.agents[0].replay.max_bytes = 0;
  EXPECT_TRUE(check_memory(options, 1, {8'000'000'000, 0}).ok()) << "it comes row by row";
  options.agents[0].replay.device = {"pjrt:cpu"};
  const Status refused = check_memory(options, 1, {8'000'000'000, 0});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("replay.device pjrt:cpu takes"));
  options.agents[0].replay.max_bytes = 1'000'000'000;
  EXPECT_TRUE(check_memory(options, 1, {8'000'000'000, 0}).ok());
}

TEST(MemoryCheck, ThisMachineHasSome) {
  const std::uint64_t available = available_memory().bytes;
  EXPECT_GT(available, 10'000'000u);
  EXPECT_LT(available, std::uint64_t{1} << 50);
}

}  // namespace
}  // namespace troupe::apps
