// The contract of envs/environment.hpp: over each domain of the suite, one of its tasks flattened and one wrapped,
// classic control, and an environment with images of bytes and a discrete action, also wrapped. That each does what the
// original does is dm_control_parity.py's and gymnasium_parity.py's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include <troupe/core/rng.hpp>
#include <troupe/envs/environment.hpp>
#include <troupe/envs/flattened.hpp>
#include <troupe/envs/float_actions.hpp>
#include <troupe/envs/mujoco_environment.hpp>
#include <troupe/envs/wrapper.hpp>
#include <troupe/envs/wrappers/action_repeat.hpp>
#include <troupe/envs/wrappers/crop.hpp>
#include <troupe/envs/wrappers/frame_stack.hpp>
#include <troupe/envs/wrappers/resize.hpp>
#include <troupe/envs/wrappers/reward_scale.hpp>
#include <troupe/envs/wrappers/time_limit.hpp>
#include <troupe/tests/envs/image_environment.hpp>

namespace troupe::envs {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr const char* kFlattened = "walker-walk_flattened";
constexpr const char* kImages = "images";
constexpr const char* kWrapped = "walker-walk_wrapped";
constexpr const char* kWrappedImages = "images_wrapped";

std::unique_ptr<Environment> make(const std::string& name, std::uint64_t seed = 0) {
  if (name == kImages) return ImageEnvironment::make(seed).value();
  if (name == kFlattened) return flattened(shared_environments("walker-walk"))(seed).value();
  if (name == kWrapped) {
    return wrapped(shared_environments("walker-walk"), {{"action_repeat", action_repeat(3)},
                                                        {"time_limit", time_limit(25)},
                                                        {"reward_scale", reward_scale(2)}})(seed)
        .value();
  }
  if (name == kWrappedImages) {
    return wrapped(ImageEnvironment::make, {{"resize", resize(12, 10)},
                                            {"crop", crop({.height = 11, .width = 8})},
                                            {"frame_stack", frame_stack(3)}})(seed)
        .value();
  }
  return make_environment(name, seed).value();
}

/// Of each domain the task whose worlds or episodes differ most from each other.
std::vector<std::string> one_of_each_domain() {
  return {"acrobot-swingup",  "ball_in_cup-catch", "cartpole-three_poles",
          "cheetah-run",      "dog-fetch",         "finger-turn_hard",
          "fish-swim",        "hopper-hop",        "humanoid-walk",
          "humanoid_cmu-run", "lqr-lqr_2_1",       "manipulator-insert_peg",
          "pendulum-swingup", "point_mass-hard",   "quadruped-fetch",
          "reacher-easy",     "stacker-stack_4",   "swimmer-swimmer6",
          "walker-walk"};
}

std::vector<std::string> classic_control_names() {
  return {"Acrobot-v1", "CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1"};
}

std::vector<std::string> shipped_kinds() {
  std::vector<std::string> names = one_of_each_domain();
  std::ranges::copy(classic_control_names(), std::back_inserter(names));
  return names;
}

std::vector<std::string> all_kinds() {
  std::vector<std::string> names = shipped_kinds();
  names.insert(names.end(), {kFlattened, kImages, kWrapped, kWrappedImages});
  return names;
}

std::string identifier(const testing::TestParamInfo<std::string>& name) {
  std::string identifier = name.param;
  for (char& c : identifier) c = c == '-' ? '_' : c;
  return identifier;
}

// An environment with a row to write to and a source of actions: what the tests below play.
class Player {
 public:
  explicit Player(const std::string& name, std::uint64_t seed = 0)
      : env(make(name, seed)), row(row_bytes(env->spec().observation)), actions_(seed) {}

  std::vector<std::byte> random_action() {
    const auto& [tensor, low, high, choices] = env->spec().action;
    std::vector<std::byte> action(tensor.bytes());
    for (std::int64_t i = 0; i < tensor.shape.elements(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      // lqr's bounds are where MuJoCo gives up.
      const double from = choices > 0 ? 0 : std::max(low[at], -2.0);
      const double to = choices > 0 ? 0 : std::min(high[at], 2.0);
      const double number = choices > 0 ? static_cast<double>(actions_.below(static_cast<std::uint64_t>(choices)))
                                        : from + (to - from) * actions_.uniform();
      put(number, at, action);
    }
    return action;
  }
  /// The bytes of an action whose numbers are all `value`, as far as its dtype has it.
  std::vector<std::byte> action_of(double value) const {
    std::vector<std::byte> action(env->spec().action.tensor.bytes());
    for (std::int64_t i = 0; i < env->spec().action_size(); ++i) put(value, static_cast<std::size_t>(i), action);
    return action;
  }
  Result<TimeStep> reset() { return env->reset(row); }
  Result<TimeStep> reset(std::uint64_t seed) { return env->reset(seed, row); }
  Result<TimeStep> step(const std::vector<std::byte>& action) { return env->step(action, row); }

  std::unique_ptr<Environment> env;
  std::vector<std::byte> row;

 private:
  void put(double value, std::size_t index, std::vector<std::byte>& action) const {
    const auto write = [&](auto number) {
      std::memcpy(action.data() + index * sizeof(number), &number, sizeof(number));
    };
    const DType dtype = env->spec().action.tensor.dtype;
    dtype == DType::kF64   ? write(value)
    : dtype == DType::kF32 ? write(static_cast<float>(value))
                           : write(static_cast<std::int32_t>(value));
  }
  Rng actions_;
};

// Plays both for `steps` with the same actions and expects the same bits.
void expect_same_course(Player& a, Player& b, int steps) {
  for (int i = 0; i < steps; ++i) {
    const std::vector<std::byte> action = a.random_action();
    const auto from_a = a.step(action);
    const auto from_b = b.step(action);
    ASSERT_TRUE(from_a.ok() && from_b.ok());
    ASSERT_EQ(from_a->reward, from_b->reward) << "step " << i;
    ASSERT_EQ(from_a->discount, from_b->discount) << "step " << i;
    ASSERT_EQ(from_a->type, from_b->type) << "step " << i;
    ASSERT_TRUE(a.row == b.row) << "step " << i;
    if (from_a->last()) {
      ASSERT_TRUE(a.reset().ok() && b.reset().ok());
      ASSERT_TRUE(a.row == b.row) << "the episode after step " << i;
    }
  }
}

class EveryEnvironment : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Kinds, EveryEnvironment, testing::ValuesIn(all_kinds()), identifier);
/// What holds of environments that have names.
class EveryShipped : public EveryEnvironment {};
INSTANTIATE_TEST_SUITE_P(Kinds, EveryShipped, testing::ValuesIn(shipped_kinds()), identifier);
/// What holds of dm_control's tasks alone.
class EveryDomain : public EveryEnvironment {};
INSTANTIATE_TEST_SUITE_P(Suite, EveryDomain, testing::ValuesIn(one_of_each_domain()), identifier);

TEST_P(EveryEnvironment, SaysWhatAnActionAndAnObservationAre) {
  const auto env = make(GetParam());
  const ActionSpec& action = env->spec().action;
  EXPECT_EQ(action.tensor.name, "action");
  EXPECT_GE(action.tensor.shape.elements(), 1);
  if (action.discrete()) {
    EXPECT_EQ(action.tensor.dtype, DType::kI32);
    EXPECT_TRUE(action.low.empty() && action.high.empty());
  } else {
    EXPECT_EQ(action.low.size(), static_cast<std::size_t>(env->spec().action_size()));
    EXPECT_EQ(action.low.size(), action.high.size());
  }
  EXPECT_GE(row_bytes(env->spec().observation), 1u);
  EXPECT_GE(env->spec().episode_steps, 1);
}

TEST(Environment, EveryTaskDeclaresAConsistentSpec) {
  for (const std::string& name : environment_names()) {
    SCOPED_TRACE(name);
    const auto env = make(name);
    const EnvSpec& spec = env->spec();
    EXPECT_EQ(spec.name, name);
    EXPECT_TRUE(check_spec(spec).ok());
    EXPECT_GE(spec.control_dt, 0.01);
    if (std::ranges::count(classic_control_names(), name) > 0) continue;
    EXPECT_FALSE(spec.action.discrete());
    EXPECT_EQ(spec.action.tensor.dtype, DType::kF64);
    EXPECT_EQ(spec.episode_steps, 1000);  // of every task of the suite
    EXPECT_EQ(row_bytes(spec.observation), sizeof(double) * static_cast<std::size_t>(spec.observation_size()));
  }
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

TEST_P(EveryDomain, EndsAtTheTimeLimitWithDiscountOne) {
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
    ASSERT_LE(step->reward, 1);
    ASSERT_TRUE(step->reward >= 0 || GetParam() == "lqr-lqr_2_1") << step->reward;
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
  std::vector<std::byte> long_action = player.random_action();
  twin.random_action();  // keeps the two sources of actions alike
  long_action.push_back(std::byte{0});
  EXPECT_EQ(player.step(long_action).error().code, Code::kInvalidArgument);
  EXPECT_EQ(player.step({}).error().code, Code::kInvalidArgument);
  const ActionSpec& spec = player.env->spec().action;
  const std::vector<double> bad_values = spec.discrete() ? std::vector<double>{-1, static_cast<double>(spec.choices)}
                                                         : std::vector<double>{std::numeric_limits<double>::quiet_NaN(),
                                                                               std::numeric_limits<double>::infinity()};
  for (const double bad : bad_values) {
    const auto step = player.step(player.action_of(bad));
    ASSERT_FALSE(step.ok());
    EXPECT_EQ(step.error().code, Code::kInvalidArgument);
    EXPECT_THAT(step.error().message, HasSubstr(spec.discrete() ? "expected one of" : "expected a finite number"));
  }
  expect_same_course(player, twin, 3);
}

TEST_P(EveryEnvironment, ContinuesFromASavedState) {
  Player player(GetParam(), 3);
  ASSERT_TRUE(player.reset().ok());
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(player.step(player.random_action()).ok());
  const std::vector<std::byte> saved = player.env->save_state();
  Player restored(GetParam(), 4);
  ASSERT_TRUE(restored.env->restore_state(saved).ok());
  expect_same_course(player, restored, 1000);  // beyond the end of the episode, so the step count counts
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

TEST_P(EveryShipped, RefusesDamagedStatesAndStaysAsItWas) {
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
  const std::vector<std::byte> action = alone.random_action();
  ASSERT_TRUE(alone.step(action).ok());
  ASSERT_TRUE(pair[0]->step(action, row).ok());
  EXPECT_EQ(row, alone.row);
}

TEST(Environment, ASeedDecidesWhatHoldsForAllItsEpisodes) {
  // The springs of lqr: the same state goes on otherwise in another world.
  Player one("lqr-lqr_6_2", 1), other("lqr-lqr_6_2", 2);
  ASSERT_TRUE(one.reset().ok() && other.reset().ok());
  const std::vector<std::byte> start = one.env->save_state();
  ASSERT_TRUE(one.reset().ok());  // the next episode is in the same world
  ASSERT_TRUE(other.reset(1).ok());
  EXPECT_EQ(other.env->save_state(), start);
  ASSERT_TRUE(other.reset().ok());
  expect_same_course(one, other, 20);
}

TEST(Environment, TheTerrainIsSavedWithTheState) {
  Player one("quadruped-escape", 1), other("quadruped-escape", 2);
  ASSERT_TRUE(one.reset().ok() && other.reset().ok());
  ASSERT_NE(one.env->save_state(), other.env->save_state());
  ASSERT_TRUE(other.env->restore_state(one.env->save_state()).ok());
  EXPECT_EQ(one.env->save_state(), other.env->save_state());
  expect_same_course(one, other, 20);
}

TEST(Environment, OneThatOnlyMovesHoldsNoTextures) {
  Player player("walker-walk");
  auto* const env = dynamic_cast<MujocoEnvironment*>(player.env.get());
  ASSERT_NE(env, nullptr);
  const mjModel& model = env->physics().model();
  EXPECT_GT(model.ntex, 0);
  EXPECT_LE(model.ntexdata, 6 * 3 * model.ntex);  // a sky box has six sides
}

TEST(Environment, ATaskMayEndItsEpisodeWithDiscountZero) {
  Player player("lqr-lqr_2_1");
  ASSERT_TRUE(player.reset().ok());
  auto* const env = dynamic_cast<MujocoEnvironment*>(player.env.get());
  ASSERT_NE(env, nullptr);
  env->physics().reset();  // all masses at rest
  const auto step = player.step(player.action_of(0));
  ASSERT_TRUE(step.ok());
  EXPECT_TRUE(step->last());
  EXPECT_EQ(step->discount, 0);
  EXPECT_EQ(step->reward, 1);
  EXPECT_EQ(player.step(player.action_of(0)).error().code, Code::kUnavailable);
}

TEST(Environment, UnknownNamesSuggestTheNearest) {
  const auto near = make_environment("walker-rum", 0);
  ASSERT_FALSE(near.ok());
  EXPECT_EQ(near.error().code, Code::kNotFound);
  EXPECT_THAT(near.error().message, AllOf(HasSubstr("\"walker-rum\""), HasSubstr("did you mean walker-run")));
  EXPECT_THAT(make_environment("cartpole-v1", 0).error().message, HasSubstr("did you mean CartPole-v1?"));
  EXPECT_THAT(make_environment("pong", 0).error().message, HasSubstr("known are Acrobot-v1, CartPole-v1, "));
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
  EXPECT_THAT(names, testing::SizeIs(51 + 5));
  EXPECT_THAT(names, AllOf(Contains("cartpole-swingup_sparse"), Contains("MountainCarContinuous-v0")));
}

// ---- other views of an environment ----

TEST(Flattened, CastsColumnsInOrderAndWidensActions) {
  Player raw("walker-walk", 3), flat(kFlattened, 3);
  EXPECT_EQ(flat.env->spec().observation, (Signature{{"observation", DType::kF32, {24}}}));
  EXPECT_EQ(flat.env->spec().action.tensor, (TensorSpec{"action", DType::kF32, {6}}));
  ASSERT_TRUE(raw.reset().ok() && flat.reset().ok());
  for (int step = 0; step < 5; ++step) {
    std::vector<double> expected(24);
    std::vector<float> got(24);
    std::memcpy(expected.data(), raw.row.data(), raw.row.size());
    std::memcpy(got.data(), flat.row.data(), flat.row.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], static_cast<float>(expected[i]));
    ASSERT_TRUE(raw.step(raw.action_of(0.25)).ok() && flat.step(flat.action_of(0.25)).ok());
  }
  EXPECT_EQ(raw.env->save_state(), flat.env->save_state());
}

TEST(FloatActions, AreWidenedAndObservationsStayAsTheyAre) {
  const MakeEnvironment make = shared_environments("walker-walk");
  const auto raw = make(3).value(), seen = float_actions(make)(3).value();
  EXPECT_EQ(seen->spec().observation, raw->spec().observation);
  EXPECT_EQ(seen->spec().action.tensor, (TensorSpec{"action", DType::kF32, {6}}));
  std::vector<std::byte> expected(row_bytes(raw->spec().observation)), got(expected.size());
  ASSERT_TRUE(raw->reset(expected).ok() && seen->reset(got).ok());
  const std::vector<double> wide(6, 0.25F);
  const std::vector<float> narrow(6, 0.25F);
  for (int step = 0; step < 5; ++step) {
    ASSERT_TRUE(raw->step(std::as_bytes(std::span(wide)), expected).ok());
    ASSERT_TRUE(seen->step(std::as_bytes(std::span(narrow)), got).ok());
    EXPECT_EQ(got, expected);
  }
  EXPECT_EQ(raw->save_state(), seen->save_state());
  EXPECT_EQ(seen->step(std::as_bytes(std::span(wide)), got).error().code, Code::kInvalidArgument);
  EXPECT_THAT(float_actions(make_environment("CartPole-v1", 1).value()->spec()).error().message,
              HasSubstr("CartPole-v1: got the discrete action"));
}

TEST(Flattened, ImagesAndChoicesStayWhatTheyAre) {
  EnvSpec spec = make(kImages)->spec();
  EXPECT_THAT(flattened(spec).error().message, HasSubstr("column pixels: uint8[84, 84, 3]"));
  spec.observation.erase(spec.observation.begin());
  EXPECT_THAT(flattened(spec).error().message, HasSubstr("the discrete action action: int32[] with 3 choices"));
  EXPECT_THAT(flattened(shared_environments("CartPole-v1"))(1).error().message,
              HasSubstr("CartPole-v1: got the discrete action action: int32[] with 2 choices"));
}

}  // namespace
}  // namespace troupe::envs
