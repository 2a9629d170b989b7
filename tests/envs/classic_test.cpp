// gymnasium's classic control. The golden numbers were printed by gymnasium 1.4.0 with numpy 2.4.6; that whole episodes
// are the same is gymnasium_parity.py's, and what holds of any environment is environment_test.cpp's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <troupe/envs/classic/classic_environment.hpp>

namespace troupe::envs::classic {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A problem with a row to write to, played by numbers.
class ClassicPlayer {
 public:
  explicit ClassicPlayer(const std::string& name, std::uint64_t seed = 7)
      : env(make_environment(name, seed).value()),
        row(static_cast<std::size_t>(env->spec().observation_size())),
        bytes(std::as_writable_bytes(std::span(row))) {}

  /// `number` as the type that the problem has actions of.
  Result<TimeStep> step(double number) {
    const auto apply = [&](auto action) { return env->step(std::as_bytes(std::span(&action, 1)), bytes); };
    return env->spec().action.discrete() ? apply(static_cast<std::int32_t>(number)) : apply(static_cast<float>(number));
  }
  std::vector<double> numbers() const {
    const Numbers& all = dynamic_cast<const ClassicEnvironment&>(*env).numbers();
    return {all.begin(), all.end()};
  }

  std::unique_ptr<Environment> env;
  std::vector<float> row;
  std::span<std::byte> bytes;
};

struct ClassicGolden {
  const char* name;
  std::vector<float> start;
  std::vector<double> actions, rewards;
  std::vector<float> end;
  std::vector<double> numbers;
};

TEST(Classic, GivesGymnasiumsNumbers) {
  const ClassicGolden goldens[] = {
      {"Acrobot-v1",
       {0.9996870160102844f, 0.025016482919454575f, 0.996846079826355f, 0.07935922592878342f, 0.055137138813734055f,
        -0.054958563297986984f},
       {2, 0, 1},
       {-1, -1, -1},
       {0.99974936f, 0.022389045f, 0.9987778f, 0.049425352f, 0.031298876f, -0.27564588f},
       {0.022390915272428213, 0.049445499515482806, 0.03129887612364685, -0.27564587240553984}},
      {"CartPole-v1",
       {0.012509546242654324f, 0.03972138091921806f, 0.027568569406867027f, -0.027479281648993492f},
       {1, 1, 0},
       {1, 1, 1},
       {0.026576005f, 0.23375747f, 0.008884639f, -0.29621994f},
       {0.026576004439398775, 0.23375747058299892, 0.008884638901622076, -0.29621995774495824}},
      {"MountainCar-v0",
       {-0.4749809205532074f, 0},
       {0, 2, 1},
       {-1, -1, -1},
       {-0.47812527f, -0.0010644675f},
       {-0.4781252823885479, -0.0010644675276752513, 0, 0}},
      {"MountainCarContinuous-v0",
       {-0.4749809205532074f, 0},
       {.5, -1.5, 1},
       {-0.025, -0.225, -0.1},
       {-0.4764086f, -0.00033478485f},
       {-0.47640860080718994, -0.0003347848542034626, 0, 0}},
      {"Pendulum-v1",
       {0.7066825032234192f, 0.7075307965278625f, 0.7944275736808777f},
       {.5, -3, 2},
       {-0.6811543739750852, -0.9327602498163718, -1.164055597753727},
       {0.48194778f, 0.87619996f, 2.5718672f},
       {1.0679199762133242, 2.5718672193282064, 0, 0}},
  };
  for (const ClassicGolden& golden : goldens) {
    SCOPED_TRACE(golden.name);
    ClassicPlayer player(golden.name, 1), first(golden.name, 7);
    const auto start = player.env->reset(7, player.bytes);
    ASSERT_TRUE(start.ok());
    EXPECT_TRUE(start->first());
    EXPECT_EQ(player.row, golden.start);
    ASSERT_TRUE(first.env->reset(first.bytes).ok());  // the seed that it was made with
    EXPECT_EQ(first.row, golden.start);
    for (std::size_t i = 0; i < golden.actions.size(); ++i) {
      const auto step = player.step(golden.actions[i]);
      ASSERT_TRUE(step.ok()) << step.error().message;
      EXPECT_EQ(step->reward, golden.rewards[i]) << i;
      EXPECT_EQ(step->type, StepType::kMid);
    }
    EXPECT_EQ(player.row, golden.end);
    EXPECT_EQ(player.numbers(), golden.numbers);
  }
}

TEST(Classic, HasGymnasiumsSpaces) {
  const EnvSpec cart_pole = ClassicPlayer("CartPole-v1").env->spec();
  EXPECT_EQ(cart_pole.observation, (Signature{{"observation", DType::kF32, {4}}}));
  EXPECT_EQ(cart_pole.action.tensor, (TensorSpec{"action", DType::kI32, Shape{}}));
  EXPECT_EQ(cart_pole.action.choices, 2);
  EXPECT_EQ(cart_pole.episode_steps, 500);
  EXPECT_EQ(cart_pole.control_dt, 0.02);
  const EnvSpec pendulum = ClassicPlayer("Pendulum-v1").env->spec();
  EXPECT_EQ(pendulum.action.tensor, (TensorSpec{"action", DType::kF32, {1}}));
  EXPECT_THAT(pendulum.action.low, ElementsAre(-2));
  EXPECT_THAT(pendulum.action.high, ElementsAre(2));
  EXPECT_EQ(pendulum.episode_steps, 200);
}

TEST(Classic, AFallenPoleEndsTheTask) {
  ClassicPlayer player("CartPole-v1");
  ASSERT_TRUE(player.env->reset(player.bytes).ok());
  int steps = 0;
  Result<TimeStep> step = TimeStep{};
  while (!step->last()) {
    step = player.step(1);
    ASSERT_TRUE(step.ok());
    EXPECT_EQ(step->reward, 1);  // also of the last step
    EXPECT_EQ(step->discount, step->last() ? 0 : 1);
    ++steps;
  }
  EXPECT_LT(steps, 20);
  EXPECT_GT(std::abs(player.row[2]), 0.2f);
  EXPECT_EQ(player.step(1).error().code, Code::kUnavailable);
}

TEST(Classic, TheTimeLimitEndsAnEpisodeWithDiscountOne) {
  ClassicPlayer player("Pendulum-v1");
  ASSERT_TRUE(player.env->reset(player.bytes).ok());
  for (int i = 1; i <= 200; ++i) {
    const auto step = player.step(0);
    ASSERT_TRUE(step.ok());
    ASSERT_EQ(step->type, i < 200 ? StepType::kMid : StepType::kLast);
    ASSERT_EQ(step->discount, 1);
    ASSERT_LE(step->reward, 0);
  }
  EXPECT_EQ(player.step(0).error().code, Code::kUnavailable);
  EXPECT_TRUE(player.env->reset(player.bytes)->first());
}

TEST(Classic, ACarThatIsOutOfTheValleyIsPaidLessItsForce) {
  ClassicPlayer player("MountainCarContinuous-v0");
  ASSERT_TRUE(player.env->reset(player.bytes).ok());
  Result<TimeStep> step = TimeStep{};
  for (int i = 0; i < 998 && !step->last(); ++i) {
    step = player.step(player.row[1] < 0 ? -1 : 1);
    ASSERT_TRUE(step.ok());
  }
  ASSERT_TRUE(step->last());
  EXPECT_EQ(step->discount, 0);
  EXPECT_EQ(step->reward, 100 - 0.1);
  EXPECT_GE(player.row[0], 0.45f);
}

TEST(Classic, TakesForcesBeyondTheBoundsAsTheBoundsAndChargesForThem) {
  // gymnasium charges for the force as it was given in the one, and as it was cut in the other.
  ClassicPlayer far("MountainCarContinuous-v0"), near("MountainCarContinuous-v0");
  ASSERT_TRUE(far.env->reset(far.bytes).ok() && near.env->reset(near.bytes).ok());
  EXPECT_EQ(far.step(3)->reward, -9 * 0.1);
  EXPECT_EQ(near.step(1)->reward, -0.1);
  EXPECT_EQ(far.row[0], near.row[0]);
  ClassicPlayer pulled("Pendulum-v1"), held("Pendulum-v1");
  ASSERT_TRUE(pulled.env->reset(pulled.bytes).ok() && held.env->reset(held.bytes).ok());
  EXPECT_EQ(pulled.step(3)->reward, held.step(2)->reward);
  EXPECT_EQ(pulled.numbers(), held.numbers());
}

TEST(Classic, SaysWhichChoicesThereAre) {
  ClassicPlayer player("Acrobot-v1");
  ASSERT_TRUE(player.env->reset(player.bytes).ok());
  EXPECT_EQ(player.step(3).error().message, "Acrobot-v1: action[0] is 3, expected one of 0 .. 2");
  EXPECT_EQ(player.step(-1).error().message, "Acrobot-v1: action[0] is -1, expected one of 0 .. 2");
}

TEST(Classic, HasNoPictureOfItself) {
  ClassicPlayer player("CartPole-v1");
  std::vector<std::uint8_t> pixels(3 * 84 * 84);
  EXPECT_EQ(player.env->render({}, pixels).error().code, Code::kUnavailable);
}

TEST(Classic, RefusesSavedStatesOutOfThisWorld) {
  // An angle of 1e300 would be wrapped for ever.
  ClassicPlayer player("Acrobot-v1"), twin("Acrobot-v1");
  ASSERT_TRUE(player.env->reset(player.bytes).ok() && twin.env->reset(twin.bytes).ok());
  const std::vector<std::byte> good = player.env->save_state();
  const std::size_t numbers = good.size() - sizeof(Numbers), generator = numbers - sizeof(NumpyGenerator::State);
  const auto damaged = [&](std::size_t at, auto value) {
    std::vector<std::byte> bytes = good;
    std::memcpy(bytes.data() + at, &value, sizeof(value));
    return player.env->restore_state(bytes);
  };
  for (const double number : {1e300, -4.5, std::numeric_limits<double>::quiet_NaN()}) {
    const Status status = damaged(numbers, number);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, Code::kCorrupt);
    EXPECT_THAT(status.error().message, HasSubstr("Acrobot-v1: saved state: number 0 is "));
  }
  const std::size_t step_count = generator - 2 * sizeof(std::uint64_t), in_episode = generator - sizeof(std::uint64_t);
  for (const std::int64_t steps : {std::int64_t{-1}, std::int64_t{500}, std::numeric_limits<std::int64_t>::max()}) {
    EXPECT_EQ(damaged(step_count, steps).error().message, "Acrobot-v1: saved state: step count out of range");
  }
  EXPECT_EQ(damaged(in_episode, std::uint64_t{2}).error().message, "Acrobot-v1: saved state: unknown phase");
  EXPECT_EQ(damaged(numbers - sizeof(std::uint64_t), std::uint64_t{8}).error().message,
            "Acrobot-v1: saved state: not a state of the random stream");
  EXPECT_TRUE(damaged(numbers, 3.0).ok());  // so the places are those
  ASSERT_TRUE(player.env->restore_state(good).ok());
  EXPECT_EQ(player.step(2)->reward, twin.step(2)->reward);
  EXPECT_EQ(player.numbers(), twin.numbers());
  EXPECT_EQ(make_environment("CartPole-v1", 1).value()->restore_state(good).error().message,
            "CartPole-v1: saved state: of another environment");
}

}  // namespace
}  // namespace troupe::envs::classic
