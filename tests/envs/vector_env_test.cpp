#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <vector>

#include <troupe/core/rng.hpp>
#include <troupe/envs/vector_env.hpp>
#include <troupe/tests/envs/image_environment.hpp>

namespace troupe::envs {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<VectorEnv> make(int count, int threads) {
  return VectorEnv::make(
             {.make = shared_environments("pendulum-swingup"), .count = count, .threads = threads, .seed = 9})
      .value();
}

// Everything that `steps` steps with random actions give.
struct Course {
  std::vector<std::byte> observations;
  std::vector<double> rewards;
  std::vector<StepType> types;
  friend bool operator==(const Course&, const Course&) = default;
};

/// Plays on after the last step of an episode, as an env actor does.
Course play(VectorEnv& env, int steps) {
  Course course;
  Rng rng(1);
  std::vector<double> actions(env.count());
  std::vector<Move> moves(env.count(), Move::kReset);
  for (int i = 0; i <= steps; ++i) {
    for (double& action : actions) action = 2 * rng.uniform() - 1;
    env.advance(moves, std::as_bytes(std::span(actions)));
    course.observations.insert(course.observations.end(), env.observations().begin(), env.observations().end());
    for (std::size_t e = 0; e < env.count(); ++e) {
      const TimeStep& step = env.result(e).value();
      course.rewards.push_back(step.reward);
      course.types.push_back(step.type);
      moves[e] = step.last() ? Move::kReset : Move::kStep;
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
  const std::vector<double> actions = {0.1, 0.2, 0.3};
  many->advance(std::vector(3, Move::kReset), std::as_bytes(std::span(actions)));
  many->advance(std::vector(3, Move::kStep), std::as_bytes(std::span(actions)));
  for (std::size_t i = 0; i < 3; ++i) {
    auto alone = make_environment("pendulum-swingup", derive_seed(9, "vector_env", i)).value();
    std::vector<std::byte> row(3 * sizeof(double));
    ASSERT_TRUE(alone->reset(row).ok());
    ASSERT_TRUE(alone->step(std::as_bytes(std::span(&actions[i], 1)), row).ok());
    EXPECT_EQ(std::memcmp(row.data(), many->observation(i).data(), row.size()), 0) << "instance " << i;
  }
}

TEST(VectorEnv, WhoRestsStaysAsItIs) {
  const auto env = make(3, 2);
  const std::vector<double> actions(3, 0.5);
  env->advance(std::vector(3, Move::kReset), std::as_bytes(std::span(actions)));
  const auto saved = env->environment(1).save_state();
  const std::vector<std::byte> row(env->observation(1).begin(), env->observation(1).end());
  env->advance(std::vector{Move::kStep, Move::kRest, Move::kStep}, std::as_bytes(std::span(actions)));
  EXPECT_EQ(env->environment(1).save_state(), saved);
  EXPECT_TRUE(std::ranges::equal(env->observation(1), row));
  EXPECT_TRUE(env->result(1)->first());
  EXPECT_EQ(env->result(0)->type, StepType::kMid);
}

TEST(VectorEnv, AFailureIsThatOfOneInstanceAndItsResetRecovers) {
  const auto env = make(6, 2);
  std::vector<double> actions(6, 0.0);
  std::vector<Move> moves(6, Move::kStep);
  env->advance(moves, std::as_bytes(std::span(actions)));
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(env->result(i).error().code, Code::kUnavailable);
  env->advance(std::vector(6, Move::kReset), std::as_bytes(std::span(actions)));
  actions[3] = actions[5] = std::numeric_limits<double>::quiet_NaN();
  env->advance(moves, std::as_bytes(std::span(actions)));
  for (const std::size_t i : {3u, 5u}) EXPECT_EQ(env->result(i).error().code, Code::kInvalidArgument);
  for (const std::size_t i : {0u, 1u, 2u, 4u}) EXPECT_TRUE(env->result(i).ok());
  moves[3] = moves[5] = Move::kReset;
  env->advance(moves, std::as_bytes(std::span(actions)));
  for (std::size_t i = 0; i < 6; ++i) EXPECT_TRUE(env->result(i).ok());
}

TEST(VectorEnv, ImagesLieInRowsOfBytes) {
  const auto env = VectorEnv::make({.make = ImageEnvironment::make, .count = 4, .threads = 2, .seed = 3}).value();
  std::vector<std::int32_t> actions(4, 2);
  env->advance(std::vector(4, Move::kReset), std::as_bytes(std::span(actions)));
  env->advance(std::vector(4, Move::kStep), std::as_bytes(std::span(actions)));
  ASSERT_EQ(env->observations().size(), 4u * (84 * 84 * 3 + sizeof(std::int32_t)));
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(std::ranges::count(env->observation(i).first(84 * 84 * 3), std::byte{255}), 84 * 3) << "one row is lit";
  }
}

TEST(VectorEnv, RefusesBadSizesAndEnvironmentsThatDiffer) {
  const auto pendulums = shared_environments("pendulum-swingup");
  EXPECT_EQ(VectorEnv::make({.make = pendulums, .count = 0}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(VectorEnv::make({.make = pendulums, .threads = 0}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(VectorEnv::make({.make = shared_environments("cheetah-rum")}).error().code, Code::kNotFound);
  std::vector<std::unique_ptr<Environment>> two;
  two.push_back(pendulums(0).value());
  two.push_back(ImageEnvironment::make(0).value());
  EXPECT_THAT(VectorEnv::make(std::move(two), 1).error().message,
              HasSubstr("VectorEnv: column 0 is pixels: uint8[84, 84, 3], expected orientation"));
}

TEST(VectorEnv, StopsItsThreadsWhetherOrNotTheyEverWorked) {
  for (int i = 0; i < 10; ++i) make(4, 4);
  const auto used = make(4, 4);
  const std::vector<double> actions(4);
  used->advance(std::vector(4, Move::kReset), std::as_bytes(std::span(actions)));
  EXPECT_TRUE(used->result(3).ok());
}

}  // namespace
}  // namespace troupe::envs
