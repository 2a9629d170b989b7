// Wrappers in a configuration, those that ship and a user's own: what an agent acts, learns and is evaluated in, every
// mistake with its place, and whole runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <troupe/messages/checkpoint.hpp>
#include <troupe/run/agent_topology.hpp>
#include <troupe/run/check_begin.hpp>
#include <troupe/run/registry_check.hpp>
#include <troupe/run/train.hpp>
#include <troupe/run/train_schema.hpp>
#include <troupe/tests/actors/recording_sink.hpp>
#include <troupe/tests/envs/rendering.hpp>
#include <troupe/tests/run/own_registry.hpp>

namespace troupe::apps {
namespace {

using ::testing::HasSubstr;

/// A user's own: the place in the corridor as a picture of one pixel, with as many levels as its key says.
class Shade final : public envs::Wrapper {
 public:
  Shade(const ConfigSection& keys, std::unique_ptr<envs::Environment> inside)
      : Wrapper(std::move(inside)), levels_(static_cast<double>(keys.get_int("levels"))) {
    own_spec().observation = {{"shade", DType::kU8, Shape{1, 1, 1}}};
  }
  Result<envs::TimeStep> reset(std::uint64_t seed, std::span<std::byte> observation) override {
    return shade(inside().reset(seed, place()), observation);
  }
  Result<envs::TimeStep> reset(std::span<std::byte> observation) override {
    return shade(inside().reset(place()), observation);
  }
  Result<envs::TimeStep> step(std::span<const std::byte> action, std::span<std::byte> observation) override {
    return shade(inside().step(action, place()), observation);
  }

 private:
  std::span<std::byte> place() { return std::as_writable_bytes(std::span(&place_, 1)); }
  Result<envs::TimeStep> shade(const Result<envs::TimeStep>& step, std::span<std::byte> observation) const {
    observation[0] = static_cast<std::byte>(std::lround(place_ * levels_));
    return step;
  }

  double levels_, place_ = 0;
};

/// Another one: bytes as numbers, which D4PG takes.
class Numbers final : public envs::Wrapper {
 public:
  Numbers(const ConfigSection&, std::unique_ptr<envs::Environment> around)
      : Wrapper(std::move(around)), bytes_(row_bytes(inside().spec().observation)) {
    own_spec().observation = {{"numbers", DType::kF32, Shape{static_cast<std::int64_t>(bytes_.size())}}};
  }
  Result<envs::TimeStep> reset(std::uint64_t seed, std::span<std::byte> observation) override {
    return widened(inside().reset(seed, bytes_), observation);
  }
  Result<envs::TimeStep> reset(std::span<std::byte> observation) override {
    return widened(inside().reset(bytes_), observation);
  }
  Result<envs::TimeStep> step(std::span<const std::byte> action, std::span<std::byte> observation) override {
    return widened(inside().step(action, bytes_), observation);
  }

 private:
  Result<envs::TimeStep> widened(const Result<envs::TimeStep>& step, std::span<std::byte> observation) const {
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      const auto number = static_cast<float>(std::to_integer<int>(bytes_[i])) / 255;
      std::memcpy(observation.data() + i * sizeof(number), &number, sizeof(number));
    }
    return step;
  }

  std::vector<std::byte> bytes_;
};

Registry registry_with_own() {
  Registry registry = own::own_registry();
  registry.wrapper(
      "shade",
      wrapper_of<Shade>(
          "The place as one pixel",
          {{.path = "levels", .default_value = std::int64_t{255}, .doc = "Of the pixel", .min = 1, .max = 255}}));
  registry.wrapper("numbers", wrapper_of<Numbers>("Bytes as numbers"));
  return registry;
}

Result<actors::TrainOptions> options_of_wrapped(const std::string& text, const Registry& registry) {
  TROUPE_ASSIGN(const Config config, parse_config(text, "f", {}, train_schema(registry)));
  return to_train_options(config, registry);
}

/// What whoever begins such a run is told.
std::string told(const std::string& text, const Registry& registry = registry_with_own()) {
  const auto config = parse_config(text, "f", {}, train_schema(registry));
  if (!config.ok()) return config.error().message;
  const auto options = to_train_options(*config, registry);
  if (!options.ok()) return options.error().message;
  const Status can = check_begin(*config, *options, RunKind::kOneProcess);
  return can.ok() ? "ok" : can.error().message;
}

actors::Agent agent_of(const std::string& text, std::size_t index = 0) {
  const auto options = options_of_wrapped(text, registry_with_own());
  EXPECT_TRUE(options.ok()) << options.error().message;
  auto agent = actors::make_agent(options->agents[index]);
  EXPECT_TRUE(agent.ok()) << agent.error().message;
  return std::move(agent).value();
}

TEST(Wrappers, AreListedFromTheEnvironmentOutwards) {
  const std::string keys = "[time_limit]\nsteps = 6\n[action_repeat]\nsteps = 4\n";
  const actors::Agent agent = agent_of("env = 'corridor'\nwrappers = ['time_limit', 'action_repeat']\n" + keys);
  EXPECT_EQ(agent.environment.episode_steps, 2);  // 4 and 2 of the 6
  EXPECT_EQ(agent.evaluation.episode_steps, 2);
  EXPECT_EQ(told("env = 'corridor'\nwrappers = ['action_repeat', 'time_limit']\n" + keys),
            "f:2: wrappers: time_limit: got 6 steps, but an episode of corridor has 5: expected no more");
  EXPECT_EQ(agent_of("env = 'corridor'\nwrappers = []").environment.episode_steps, 20);
  EXPECT_EQ(agent_of("env = 'corridor'\nwrappers = 'action_repeat'").environment.episode_steps, 10);
}

TEST(Wrappers, OfAnAgentWithANameAreInItsSection) {
  const std::string text =
      "[agents.alice]\nenv = 'corridor'\nwrappers = ['time_limit']\n[agents.alice.time_limit]\nsteps = 7\n"
      "[agents.bob]\nenv = 'corridor'\nwrappers = ['time_limit']\n[agents.bob.time_limit]\nsteps = 9\n";
  EXPECT_EQ(agent_of(text, 0).environment.episode_steps, 7);
  EXPECT_EQ(agent_of(text, 1).environment.episode_steps, 9);
  EXPECT_EQ(
      told("[agents.alice]\nenv = 'corridor'\nwrappers = ['time_limit']\n"),
      "f:3: agents.alice.wrappers: time_limit: got 250 steps, but an episode of corridor has 20: expected no more");
}

TEST(Wrappers, EvaluationsLeaveOutWhatIsForTrainingOnly) {
  const actors::Agent agent =
      agent_of("env = 'corridor'\nwrappers = ['reward_scale', 'action_repeat']\n[reward_scale]\nfactor = -10\n");
  std::vector<std::byte> row(row_bytes(agent.environment.observation));
  const float right = 1;
  const auto reward = [&](const envs::MakeEnvironment& make) {
    const auto env = make(1).value();
    EXPECT_TRUE(env->reset(row).ok());
    return env->step(std::as_bytes(std::span(&right, 1)), row)->reward;
  };
  EXPECT_NEAR(reward(agent.make_environment), -10 * (0.1 + 0.2), 1e-12);
  EXPECT_NEAR(reward(agent.make_evaluation), 0.1 + 0.2, 1e-12);
}

TEST(Wrappers, EvaluationsMayHaveTheirOwn) {
  const std::string limited = "env = 'corridor'\nwrappers = ['time_limit']\n[time_limit]\nsteps = 7\n[evaluator]\n";
  EXPECT_EQ(agent_of(limited).evaluation.episode_steps, 7);
  EXPECT_EQ(agent_of(limited + "wrappers = []").evaluation.episode_steps, 20);
  EXPECT_EQ(agent_of(limited + "wrappers = []").environment.episode_steps, 7);
  const actors::Agent other = agent_of(
      "env = 'cartpole-swingup'\nwrappers = ['time_limit']\n[evaluator]\n"
      "env = 'cartpole-balance'\n");
  EXPECT_EQ(other.environment.name, "cartpole-swingup");
  EXPECT_EQ(other.evaluation.name, "cartpole-balance");
  EXPECT_EQ(other.evaluation.episode_steps, 250);
  EXPECT_EQ(told("env = 'cartpole-swingup'\n[evaluator]\nenv = 'cartpole-balance'\n"), "ok");
}

TEST(Wrappers, EvaluationsThatThePolicyIsNotMadeForAreRefused) {
  EXPECT_EQ(told("env = 'cartpole-swingup'\n[evaluator]\nenv = 'pendulum-swingup'\n"),
            "f:3: evaluator.env: evaluations are in pendulum-swingup (observes observation: float32[3]; action: "
            "float32[1], from [-1] to [1]), expected observations and actions as in cartpole-swingup (observes "
            "observation: float32[5]; action: float32[1], from [-1] to [1]), for which the policy is made");
  EXPECT_THAT(
      told("env = 'corridor'\nwrappers = ['shade', 'frame_stack', 'numbers']\n[evaluator]\nwrappers = ['shade', "
           "'numbers']\n"),
      HasSubstr("f:4: evaluator.wrappers: evaluations are in corridor (observes observation: float32[1];"));
  EXPECT_EQ(told("env = 'corridor'\n[evaluator]\nwrappers = ['numbers', 'frame_stack']\n"),
            "f:3: evaluator.wrappers: frame_stack: corridor observes no image: got numbers: float32[8], expected "
            "uint8[height, width, channels]");
  EXPECT_EQ(told("env = 'corridor'\nwrappers = ['reward_scale']\n[evaluator]\nwrappers = ['reward_scale']\n"),
            "f:4: evaluator.wrappers: got \"reward_scale\", which is for training only: expected it in wrappers alone");
}

TEST(Wrappers, MistakesOfTheListAreSaidWithTheirPlaces) {
  const std::string corridor = "env = 'corridor'\n";
  EXPECT_THAT(
      told(corridor + "wrappers = ['action_repat']"),
      HasSubstr("f:2: wrappers: unknown value \"action_repat\" (did you mean \"action_repeat\"?), expected one of "
                "action_repeat, crop, frame_stack, numbers, pixels, resize, reward_scale, shade, time_limit"));
  EXPECT_EQ(told(corridor + "wrappers = ['shade', 'crop', 'shade']"),
            "f:2: wrappers: \"shade\" is there twice, expected each wrapper once");
  EXPECT_EQ(told(corridor + "[evaluator]\nwrappers = ['same', 'shade']"),
            "f:3: evaluator.wrappers: \"same\" is there with others, expected it alone");
  EXPECT_EQ(told(corridor + "[shade]\nlevels = 3"),
            "f:3: shade.levels: has no effect here: it is used only with wrappers = [\"shade\"]");
  EXPECT_EQ(told(corridor + "wrappers = ['shade', 'numbers']\n[shade]\nlevels = 3"), "ok");
  EXPECT_EQ(told(corridor + "wrappers = ['shade']\n[shade]\nlevels = 0"),
            "f:4: shade.levels: out of range: got 0, expected 1 .. 255");
  EXPECT_EQ(
      told(corridor + "wrappers = ['frame_stack']"),
      "f:2: wrappers: frame_stack: corridor observes no image: got place: float64[], expected uint8[height, width, "
      "channels]");
  EXPECT_EQ(told(corridor + "wrappers = ['pixels']"),
            "f:2: wrappers: pixels: corridor has no picture of itself: its spec names no camera");
  EXPECT_EQ(told("env = 'cheetah-run'\nwrappers = ['pixels']\n[pixels]\ncameras = ['front']\n"),
            "f:2: wrappers: pixels: cheetah-run has no camera \"front\", expected 0 .. 2 or one of side, back, free");
  // The rest fits; that SAC learns from no images is the algorithm's to say.
  EXPECT_THAT(told("env = 'cheetah-run'\nalgorithm = 'sac'\nwrappers = ['action_repeat', 'pixels', 'frame_stack']\n"),
              HasSubstr("algorithm: cheetah-run: column pixels: uint8[84, 84, 9] is not made a vector of floats"));
}

TEST(Wrappers, AnEmptyListIsAValueOnlyWhereItMayBe) {
  EXPECT_EQ(told("env = 'corridor'\n[learner]\ndevice = []"),
            "f:3: learner.device: wrong length: got 0 elements, expected 1 .. 64");
  const Registry registry = registry_with_own();
  const auto config = parse_config("env = 'corridor'\n[evaluator]\nwrappers = []", "f", {}, train_schema(registry));
  ASSERT_TRUE(config.ok());
  const auto again = parse_config(config->to_toml(), "f", {}, train_schema(registry));
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(again->hash(), config->hash());
}

TEST(Wrappers, WhatAUserRegistersIsChecked) {
  Registry registry = registry_with_own();
  EXPECT_TRUE(check_registry(registry).ok());
  registry.wrapper("shade", {});
  registry.wrapper("corridor", wrapper_of<Numbers>("An environment's name"));
  registry.wrapper("same", wrapper_of<Numbers>("A word that is taken"));
  registry.wrapper("nothing", {});
  EXPECT_EQ(check_registry(registry).error().message,
            "registry: wrapper \"shade\": registered twice\n"
            "registry: wrapper \"corridor\": a configuration has [corridor] for something else\n"
            "registry: wrapper \"nothing\": nothing makes it\n"
            "registry: wrapper \"same\": in evaluator.wrappers it stands for those of the agent");
}

TEST(Wrappers, AUsersWrapperThatFailsIsOneErrorThatNamesIt) {
  using Made = Result<std::unique_ptr<envs::Environment>>;
  const auto with = [](std::function<Result<envs::Wrap>(const ConfigSection&)> make) {
    Registry registry = registry_with_own();
    registry.wrapper("odd", {.make = std::move(make)});
    return told("env = 'corridor'\nwrappers = ['odd']", registry);
  };
  const auto by = [&](const envs::Wrap& wrap) {
    return with([wrap](const ConfigSection&) { return Result<envs::Wrap>(wrap); });
  };
  EXPECT_EQ(by([](std::unique_ptr<envs::Environment> inside, std::uint64_t) -> Made { return inside; }), "ok");
  EXPECT_EQ(with([](const ConfigSection&) -> Result<envs::Wrap> { throw std::runtime_error("no"); }),
            "f:2: wrappers: wrapper odd: exception: no");
  EXPECT_EQ(by(nullptr), "f:2: wrappers: wrapper odd: it gave nothing that wraps");
  EXPECT_EQ(by([](std::unique_ptr<envs::Environment>, std::uint64_t) -> Made { throw 3; }),
            "f:2: wrappers: odd: wrapper odd: unknown exception");
  EXPECT_EQ(by([](std::unique_ptr<envs::Environment>, std::uint64_t) -> Made { return {nullptr}; }),
            "f:2: wrappers: odd: wrapper odd: what it made is null");
  EXPECT_EQ(by([](std::unique_ptr<envs::Environment>, std::uint64_t) -> Made {
              envs::EnvSpec spec = own::Corridor::make_spec(5);
              spec.episode_steps = 0;
              return {std::make_unique<own::Corridor>(spec)};
            }),
            "f:2: wrappers: odd: environment corridor: an episode has at most 0 steps, expected 1 or more");
}

TEST(Wrappers, ARunThatGoesOnHasTheSameOnes) {
  const Registry registry = registry_with_own();
  const auto config = [&](const std::string& text) {
    return parse_config(text, "f", {}, train_schema(registry)).value();
  };
  const std::string text = "env = 'corridor'\nwrappers = ['time_limit']\n[time_limit]\nsteps = 7\n";
  const Config was = config(text);
  EXPECT_TRUE(check_same_run(config(text + "[evaluator]\nwrappers = []"), was, "r").ok());
  EXPECT_EQ(
      check_same_run(config("env = 'corridor'\nwrappers = ['time_limit', 'shade']\n[time_limit]\nsteps = 8\n"), was,
                     "r")
          .error()
          .message,
      "f:2: wrappers: got [\"time_limit\", \"shade\"], but r has [\"time_limit\"], which is the same for all of a "
      "run\n"
      "f:4: time_limit.steps: got 8, but r has 7, which is the same for all of a run");
}

/// Trains in wrapped environments; the folder goes with it.
class WrappedRuns : public ::testing::Test {
 protected:
  void SetUp() override {
    folder = std::filesystem::path(::testing::TempDir()) /
             (std::string("wrapped_") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  Result<actors::TrainSummary> run(const std::string& text, const std::filesystem::path& in, bool resume = false) {
    TROUPE_ASSIGN(const actors::TrainOptions options, options_of_wrapped(text + kSmall, registry_with_own()));
    return actors::train(options, {.metrics = &sink, .checkpoint_dir = in / "checkpoints", .resume = resume});
  }
  static std::vector<std::byte> everything(const std::filesystem::path& in) {
    const auto checkpoint = messages::open_newest_checkpoint((in / "checkpoints").string()).value();
    std::vector<std::byte> all;
    for (const auto& tensor : checkpoint.tensors) all.insert(all.end(), tensor.bytes.begin(), tensor.bytes.end());
    return all;
  }

  /// Two runs that go on from one checkpoint take the same steps.
  void expect_same_bits(const std::string& text) {
    const std::string all = "deterministic = true\n" + text;
    const auto first = run("max_learner_steps = 40\n" + all, folder / "first");
    ASSERT_TRUE(first.ok()) << first.error().message;
    std::vector<std::byte> bits[2];
    for (int i = 0; i < 2; ++i) {
      const std::filesystem::path copy = folder / std::to_string(i);
      std::filesystem::copy(folder / "first", copy, std::filesystem::copy_options::recursive);
      const auto summary = run("max_learner_steps = 80\n" + all, copy, true);
      ASSERT_TRUE(summary.ok()) << summary.error().message;
      EXPECT_EQ(summary->learner_steps, 80);
      bits[i] = everything(copy);
    }
    EXPECT_EQ(bits[0], bits[1]);
    EXPECT_NE(bits[0], everything(folder / "first"));
  }

  static constexpr const char* kSmall =
      "[replay]\nmin_items = 32\nsamples_per_insert = 4\ntolerance = 1\n"
      "[d4pg]\npolicy_layers = [16]\ncritic_layers = [16]\natoms = 11\n[learner]\nbatch_size = 16\n"
      "[checkpoint]\nevery_s = 1\n[metrics]\nevery_s = 0.05\n[evaluator]\nepisodes = 2\n";
  std::filesystem::path folder;
  actors::testing::RecordingSink sink;
};

TEST_F(WrappedRuns, D4pgIsEvaluatedByTheEnvironmentsOwnReturns) {
  // Cartpole's rewards are from 0 to 1, so those that are learnt from are 0 or less.
  const auto summary =
      run("env = 'cartpole-swingup'\ndeterministic = true\nmax_learner_steps = 100\n"
          "wrappers = ['action_repeat', 'time_limit', 'reward_scale']\n"
          "[time_limit]\nsteps = 20\n[reward_scale]\nfactor = -100\n",
          folder);
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  const auto evaluated = find_scalar(summary->agents[0].final_evaluation->values, "return");
  EXPECT_GT(evaluated.value(), 0);
  EXPECT_LE(evaluated.value(), 2 * 20);
  ASSERT_FALSE(sink.evaluated_steps("evaluator").empty());
  for (const Evaluation& evaluation : sink.evaluations) {
    EXPECT_GT(find_scalar(evaluation.values, "return").value(), 0) << evaluation.source;
  }
  int trained = 0;
  for (const MetricRow& row : sink.rows) {
    for (const Scalar& scalar : row.scalars) {
      if (!scalar.name.ends_with("episode_return")) continue;
      ++trained;
      EXPECT_LT(scalar.value, 0);
    }
  }
  EXPECT_GT(trained, 0);
}

TEST_F(WrappedRuns, GoOnFromACheckpointBitForBit) {
  // The last pictures, the steps of the limit and what the user's wrapper sees are all in the middle of an episode.
  expect_same_bits(
      "env = 'corridor'\nwrappers = ['action_repeat', 'shade', 'frame_stack', 'time_limit', 'numbers']\n"
      "[time_limit]\nsteps = 9\n");
}

TEST_F(WrappedRuns, GoOnBitForBitWithPixels) {
  if (!envs::test::no_rendering().empty()) GTEST_SKIP() << envs::test::no_rendering();
  expect_same_bits(
      "env = 'cartpole-swingup'\nwrappers = ['action_repeat', 'pixels', 'resize', 'crop', 'frame_stack', 'numbers']\n"
      "[pixels]\nheight = 16\nwidth = 16\nprofile = 'fast'\n[resize]\nheight = 8\nwidth = 8\n"
      "[crop]\nheight = 6\nwidth = 8\n[action_repeat]\nsteps = 50\n");
}

}  // namespace
}  // namespace troupe::apps
