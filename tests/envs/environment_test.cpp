// The contract of envs/environment.hpp, over every environment there is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <troupe/core/rng.hpp>
#include <troupe/envs/environment.hpp>

namespace troupe::envs {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;

std::unique_ptr<Environment> make(const std::string& name, std::uint64_t seed = 0) {
  auto made = make_environment(name, seed);
  return std::move(made).value();
}

// An environment with a row to write to and a source of actions: what the tests below play.
class Player {
 public:
  explicit Player(const std::string& name, std::uint64_t seed = 0)
      : env(make(name, seed)), row(row_bytes(env->spec().observation)), actions_(seed) {}

  std::vector<double> random_action() {
    std::vector<double> action;
    for (std::size_t i = 0; i < env->spec().action_low.size(); ++i) {
      action.push_back(env->spec().action_low[i] +
                       (env->spec().action_high[i] - env->spec().action_low[i]) * actions_.uniform());
    }
    return action;
  }
  Result<TimeStep> reset() { return env->reset(row); }
  Result<TimeStep> reset(std::uint64_t seed) { return env->reset(seed, row); }
  Result<TimeStep> step(const std::vector<double>& action) { return env->step(action, row); }

  std::unique_ptr<Environment> env;
  std::vector<std::byte> row;

 private:
  Rng actions_;
};

// Plays both for `steps` with the same actions and expects the same bits.
void expect_same_course(Player& a, Player& b, int steps) {
  for (int i = 0; i < steps; ++i) {
    const std::vector<double> action = a.random_action();
    const auto from_a = a.step(action);
    const auto from_b = b.step(action);
    ASSERT_TRUE(from_a.ok() && from_b.ok());
    ASSERT_EQ(from_a->reward, from_b->reward) << "step " << i;
    ASSERT_EQ(from_a->type, from_b->type) << "step " << i;
    ASSERT_EQ(a.row, b.row) << "step " << i;
  }
}

class EveryEnvironment : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Suite, EveryEnvironment, testing::ValuesIn(environment_names()), [](const auto& name) {
  std::string identifier = name.param;
  for (char& c : identifier) c = c == '-' ? '_' : c;
  return identifier;
});

TEST_P(EveryEnvironment, DeclaresAConsistentSpec) {
  const auto env = make(GetParam());
  const EnvSpec& spec = env->spec();
  EXPECT_EQ(spec.name, GetParam());
  EXPECT_EQ(spec.action_low.size(), spec.action_high.size());
  EXPECT_THAT(spec.action_low, Each(-1.0));
  EXPECT_THAT(spec.action_high, Each(1.0));
  EXPECT_EQ(spec.episode_steps, 1000);  // of every task of the suite
  EXPECT_GE(spec.control_dt, 0.01);
  EXPECT_EQ(row_bytes(spec.observation), sizeof(double) * static_cast<std::size_t>(spec.observation_size()));
}

TEST_P(EveryEnvironment, SeedDecidesTheStartState) {
  Player a(GetParam(), 1);
  Player b(GetParam(), 2);
  ASSERT_TRUE(a.reset().ok() && b.reset().ok());
  EXPECT_NE(a.row, b.row);
  ASSERT_TRUE(b.reset(1).ok());
  EXPECT_EQ(a.row, b.row);
  expect_same_course(a, b, 20);
  // And so does the next episode of the stream.
  ASSERT_TRUE(a.reset().ok() && b.reset().ok());
  EXPECT_EQ(a.row, b.row);
}

TEST_P(EveryEnvironment, EndsAtTheTimeLimitWithDiscountOne) {
  Player player(GetParam());
  auto step = player.reset();
  ASSERT_TRUE(step.ok());
  EXPECT_TRUE(step->first());
  EXPECT_EQ(step->reward, 0);
  EXPECT_EQ(step->discount, 1);
  for (int i = 1; i <= 1000; ++i) {
    step = player.step(player.random_action());
    ASSERT_TRUE(step.ok()) << step.error().message;
    ASSERT_EQ(step->type, i < 1000 ? StepType::kMid : StepType::kLast) << "step " << i;
    ASSERT_EQ(step->discount, 1);
    ASSERT_TRUE(step->reward >= 0 && step->reward <= 1) << step->reward;
  }
  EXPECT_EQ(player.step(player.random_action()).error().code, Code::kUnavailable);
  EXPECT_TRUE(player.reset()->first());
}

TEST_P(EveryEnvironment, WantsAResetBeforeTheFirstStep) {
  Player player(GetParam());
  const auto step = player.step(player.random_action());
  ASSERT_FALSE(step.ok());
  EXPECT_EQ(step.error().code, Code::kUnavailable);
  EXPECT_THAT(step.error().message, HasSubstr("reset()"));
}

TEST_P(EveryEnvironment, RefusesBadActionsAndStaysAsItWas) {
  Player player(GetParam());
  Player twin(GetParam());
  ASSERT_TRUE(player.reset().ok() && twin.reset().ok());
  std::vector<double> long_action = player.random_action();
  twin.random_action();  // keeps the two sources of actions alike
  long_action.push_back(0);
  EXPECT_EQ(player.step(long_action).error().code, Code::kInvalidArgument);
  EXPECT_EQ(player.step({}).error().code, Code::kInvalidArgument);
  for (double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    std::vector<double> action(player.env->spec().action_low.size(), 0.5);
    action.back() = bad;
    const auto step = player.step(action);
    ASSERT_FALSE(step.ok());
    EXPECT_EQ(step.error().code, Code::kInvalidArgument);
    EXPECT_THAT(step.error().message, HasSubstr("expected a finite number"));
  }
  expect_same_course(player, twin, 3);
}

TEST_P(EveryEnvironment, ContinuesFromASavedState) {
  Player player(GetParam(), 3);
  ASSERT_TRUE(player.reset().ok());
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(player.step(player.random_action()).ok());
  const std::vector<std::byte> saved = player.env->save_state();
  Player restored(GetParam(), 4);
  ASSERT_TRUE(restored.env->restore_state(saved).ok());
  expect_same_course(player, restored, 950);  // to the end of the episode, so the step count counts
  ASSERT_TRUE(player.reset().ok() && restored.reset().ok());
  EXPECT_EQ(player.row, restored.row);
  expect_same_course(player, restored, 3);
}

TEST_P(EveryEnvironment, ContinuesFromAStateSavedAtTheStartOrTheEnd) {
  Player player(GetParam(), 5);
  Player restored(GetParam(), 6);
  ASSERT_TRUE(restored.env->restore_state(player.env->save_state()).ok());
  EXPECT_EQ(restored.step(restored.random_action()).error().code, Code::kUnavailable);
  ASSERT_TRUE(player.reset().ok());
  ASSERT_TRUE(restored.env->restore_state(player.env->save_state()).ok());
  expect_same_course(player, restored, 3);
}

TEST_P(EveryEnvironment, RefusesDamagedStatesAndStaysAsItWas) {
  Player player(GetParam());
  Player twin(GetParam());
  ASSERT_TRUE(player.reset().ok() && twin.reset().ok());
  const std::vector<std::byte> saved = player.env->save_state();
  std::vector<std::vector<std::byte>> damaged;
  damaged.push_back({});
  damaged.emplace_back(saved.begin(), saved.begin() + 100);
  damaged.emplace_back(saved.begin(), saved.end() - 1);
  damaged.emplace_back(saved.begin(), saved.end() - 8);
  damaged.push_back(saved);
  damaged.back()[0] ^= std::byte{1};
  const std::string other = GetParam() == "cheetah-run" ? "walker-run" : "cheetah-run";
  damaged.push_back(make(other)->save_state());
  damaged.push_back(saved);
  const double not_a_number = std::numeric_limits<double>::quiet_NaN();
  std::memcpy(damaged.back().data() + saved.size() - sizeof(double), &not_a_number, sizeof(double));
  for (std::size_t i = 0; i < damaged.size(); ++i) {
    const Status status = player.env->restore_state(damaged[i]);
    ASSERT_FALSE(status.ok()) << "damage " << i;
    EXPECT_EQ(status.error().code, Code::kCorrupt);
    EXPECT_THAT(status.error().message, HasSubstr(GetParam()));
  }
  expect_same_course(player, twin, 3);
}

TEST(Environment, DivergenceIsAnErrorAndResetRecovers) {
  Player player("cheetah-run");
  ASSERT_TRUE(player.reset().ok());
  // The speed of every joint, just short of what MuJoCo calls a bad number.
  std::vector<std::byte> state = player.env->save_state();
  std::vector<double> observation(17);
  std::memcpy(observation.data(), player.row.data(), player.row.size());
  const auto* first_speed = reinterpret_cast<const std::byte*>(&observation[8]);
  const auto at = std::search(state.begin(), state.end(), first_speed, first_speed + 9 * sizeof(double));
  ASSERT_NE(at, state.end());
  const std::vector<double> speeds(9, 9e9);
  std::memcpy(&*at, speeds.data(), 9 * sizeof(double));
  ASSERT_TRUE(player.env->restore_state(state).ok());
  const auto step = player.step(player.random_action());
  ASSERT_FALSE(step.ok());
  EXPECT_EQ(step.error().code, Code::kInternal);
  EXPECT_THAT(step.error().message, AllOf(HasSubstr("cheetah-run"), HasSubstr("diverged"), HasSubstr("bad q")));
  EXPECT_EQ(player.step(player.random_action()).error().code, Code::kUnavailable);
  ASSERT_TRUE(player.reset().ok());
  EXPECT_TRUE(player.step(player.random_action()).ok());
}

TEST(Environment, InstancesThatShareAModelDoNotShareTargets) {
  const MakeEnvironment make = shared_environments("reacher-easy");
  const std::unique_ptr<Environment> pair[] = {make(1).value(), make(2).value()};
  Player alone("reacher-easy", 1);
  std::vector<std::byte> row(alone.row.size());
  ASSERT_TRUE(alone.reset().ok());
  ASSERT_TRUE(pair[0]->reset(row).ok());
  ASSERT_TRUE(pair[1]->reset(row).ok());  // moves the target of its own only
  const std::vector<double> action = {0.5, -0.5};
  ASSERT_TRUE(alone.step(action).ok());
  ASSERT_TRUE(pair[0]->step(action, row).ok());
  EXPECT_EQ(row, alone.row);
}

TEST(Environment, UnknownNamesSuggestTheNearest) {
  const auto near = make_environment("walker-rum", 0);
  ASSERT_FALSE(near.ok());
  EXPECT_EQ(near.error().code, Code::kNotFound);
  EXPECT_THAT(near.error().message, AllOf(HasSubstr("\"walker-rum\""), HasSubstr("did you mean walker-run")));
  EXPECT_THAT(make_environment("pong", 0).error().message, HasSubstr("known are cartpole-balance, "));
}

TEST(Environment, MissingModelFilesAreNamed) {
  ASSERT_EQ(setenv("TROUPE_DM_CONTROL_DIR", "/nowhere", 1), 0);
  const auto made = make_environment("walker-run", 0);
  ASSERT_EQ(unsetenv("TROUPE_DM_CONTROL_DIR"), 0);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, Code::kIo);
  EXPECT_THAT(made.error().message, HasSubstr("/nowhere/suite/walker.xml"));
}

TEST(Environment, NamesAreSortedAndComplete) {
  const std::vector<std::string> names = environment_names();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_THAT(names, testing::SizeIs(12));
  EXPECT_THAT(names, Contains("cartpole-swingup_sparse"));
}

TEST(FlattenObservation, CastsColumnsInOrder) {
  Player player("walker-walk");
  ASSERT_TRUE(player.reset().ok());
  std::vector<float> flat(24);
  flatten_observation(player.env->spec(), player.row, flat);
  std::vector<double> expected(24);
  std::memcpy(expected.data(), player.row.data(), player.row.size());
  for (std::size_t i = 0; i < flat.size(); ++i) EXPECT_EQ(flat[i], static_cast<float>(expected[i]));
}

}  // namespace
}  // namespace troupe::envs
