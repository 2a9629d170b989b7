#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <vector>

#include <troupe/core/rng.hpp>
#include <troupe/envs/vector_env.hpp>

namespace troupe::envs {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<VectorEnv> make(int count, int threads) {
  return std::move(
             VectorEnv::make(
                 {.make = shared_environments("pendulum-swingup"), .count = count, .threads = threads, .seed = 9}))
      .value();
}

// Everything that `steps` steps with random actions give.
struct Course {
  std::vector<std::byte> observations;
  std::vector<double> rewards;
  std::vector<StepType> types;
  friend bool operator==(const Course&, const Course&) = default;
};

Course play(VectorEnv& env, int steps) {
  Course course;
  Rng rng(1);
  std::vector<double> actions(static_cast<std::size_t>(env.count()));
  for (int i = 0; i <= steps; ++i) {
    for (double& action : actions) action = 2 * rng.uniform() - 1;
    const Status status = i == 0 ? env.reset() : env.step(actions);
    EXPECT_TRUE(status.ok()) << status.error().message;
    course.observations.insert(course.observations.end(), env.observations().begin(), env.observations().end());
    for (const TimeStep& step : env.time_steps()) {
      course.rewards.push_back(step.reward);
      course.types.push_back(step.type);
    }
  }
  return course;
}

TEST(VectorEnv, ResultsDoNotDependOnTheNumberOfThreads) {
  const Course one = play(*make(5, 1), 1010);
  EXPECT_TRUE(one == play(*make(5, 2), 1010));
  EXPECT_TRUE(one == play(*make(5, 8), 1010));
}

TEST(VectorEnv, InstancesAreEnvironmentsWithDerivedSeeds) {
  const auto many = make(3, 2);
  ASSERT_TRUE(many->reset().ok());
  ASSERT_TRUE(many->step(std::vector<double>{0.1, 0.2, 0.3}).ok());
  for (int i = 0; i < 3; ++i) {
    auto alone = make_environment("pendulum-swingup", derive_seed(9, "vector_env", static_cast<std::uint64_t>(i)));
    std::vector<std::byte> row(3 * sizeof(double));
    ASSERT_TRUE((*alone)->reset(row).ok());
    ASSERT_TRUE((*alone)->step(std::vector<double>{0.1 * (i + 1)}, row).ok());
    EXPECT_EQ(std::memcmp(row.data(), many->observation(i).data(), row.size()), 0) << "instance " << i;
  }
}

TEST(VectorEnv, StartsTheNextEpisodeOnTheStepAfterTheLast) {
  const Course course = play(*make(2, 1), 1002);
  const auto type = [&](int step, int instance) { return course.types[static_cast<std::size_t>(2 * step + instance)]; };
  for (int instance : {0, 1}) {
    EXPECT_EQ(type(0, instance), StepType::kFirst);
    EXPECT_EQ(type(999, instance), StepType::kMid);
    EXPECT_EQ(type(1000, instance), StepType::kLast);
    EXPECT_EQ(type(1001, instance), StepType::kFirst);
    EXPECT_EQ(type(1002, instance), StepType::kMid);
  }
}

TEST(VectorEnv, ErrorsNameTheInstanceAndResetRecovers) {
  const auto env = make(6, 2);
  const std::vector<double> good(6, 0.0);
  EXPECT_EQ(env->step(good).error().code, Code::kUnavailable);
  ASSERT_TRUE(env->reset().ok());
  std::vector<double> bad = good;
  bad[3] = bad[5] = std::numeric_limits<double>::quiet_NaN();
  const Status status = env->step(bad);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::kInvalidArgument);
  EXPECT_THAT(status.error().message, HasSubstr("environment 3: "));
  ASSERT_TRUE(env->reset().ok());
  EXPECT_TRUE(env->step(good).ok());
}

TEST(VectorEnv, RefusesBadSizes) {
  const auto env = make(2, 1);
  ASSERT_TRUE(env->reset().ok());
  const Status status = env->step(std::vector<double>(3));
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::kInvalidArgument);
  EXPECT_THAT(status.error().message, HasSubstr("got 3 numbers, expected 2 x 1"));
  EXPECT_EQ(VectorEnv::make({.make = shared_environments("cheetah-run"), .count = 0}).error().code,
            Code::kInvalidArgument);
  EXPECT_EQ(VectorEnv::make({.make = shared_environments("cheetah-run"), .threads = 0}).error().code,
            Code::kInvalidArgument);
  EXPECT_EQ(VectorEnv::make({.make = shared_environments("cheetah-rum")}).error().code, Code::kNotFound);
}

TEST(VectorEnv, StopsItsThreadsWhetherOrNotTheyEverWorked) {
  for (int i = 0; i < 10; ++i) make(4, 4);
  const auto used = make(4, 4);
  EXPECT_TRUE(used->reset().ok());
}

}  // namespace
}  // namespace troupe::envs
