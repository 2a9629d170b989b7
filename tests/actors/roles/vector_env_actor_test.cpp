// Env actors with one and with eight environments: images of bytes, a discrete action, extras and recurrent state,
// which the suite's continuous control has not. Every observation says which environment, episode and step it is of.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <tuple>
#include <vector>

#include <troupe/actors/roles/env_actor.hpp>
#include <troupe/actors/roles/inference_actor.hpp>
#include <troupe/algorithms/acting/gaussian_noise.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/envs/flattened.hpp>
#include <troupe/replay/n_step_adder.hpp>
#include <troupe/tests/actors/fake_context.hpp>
#include <troupe/tests/actors/small_policy.hpp>

namespace troupe::actors {
namespace {

using testing::FakeContext;
using ::testing::HasSubstr;

/// Which environment, which of its episodes, which step of that.
using Label = std::array<std::int32_t, 3>;
using Fails = std::function<bool(const Label&)>;

/// Episodes of 20 steps and more, of another length in each environment.
class Labelled final : public envs::Environment {
 public:
  Labelled(std::int32_t number, Fails fails) : label_{number, -1, 0}, fails_(std::move(fails)) {
    spec_.name = "labelled";
    spec_.observation = {{"image", DType::kU8, {2, 2}}, {"label", DType::kI32, {3}}};
    spec_.action = envs::ActionSpec::discrete(3);
    spec_.episode_steps = 20 + number;
  }
  const envs::EnvSpec& spec() const override { return spec_; }
  Result<envs::TimeStep> reset(std::uint64_t, std::span<std::byte> observation) override { return reset(observation); }
  Result<envs::TimeStep> reset(std::span<std::byte> observation) override {
    ++label_[1];
    label_[2] = 0;
    return observe(envs::StepType::kFirst, 0, observation);
  }
  Result<envs::TimeStep> step(std::span<const std::byte> action, std::span<std::byte> observation) override {
    std::int32_t choice = -1;
    std::memcpy(&choice, action.data(), sizeof(choice));
    if (choice < 0 || choice > 2) return Error{Code::kInvalidArgument, "no such choice"};
    ++label_[2];
    const bool last = label_[2] == spec_.episode_steps;
    return observe(last ? envs::StepType::kLast : envs::StepType::kMid, choice, observation);
  }
  std::vector<std::byte> save_state() const override {
    const auto bytes = std::as_bytes(std::span(label_));
    return {bytes.begin(), bytes.end()};
  }
  Status restore_state(std::span<const std::byte> state) override {
    std::memcpy(label_.data(), state.data(), sizeof(label_));
    return {};
  }
  Status render(const envs::RenderOptions&, std::span<std::uint8_t>) override {
    return Error{Code::kUnavailable, "nothing to see"};
  }

 private:
  Result<envs::TimeStep> observe(envs::StepType type, double reward, std::span<std::byte> observation) const {
    if (fails_ && fails_(label_)) return Error{Code::kInternal, "it broke"};
    std::ranges::fill(observation.first(4), static_cast<std::byte>(200 + label_[0]));
    std::memcpy(observation.data() + 4, label_.data(), sizeof(label_));
    return envs::TimeStep{type, reward, 1};
  }

  envs::EnvSpec spec_;
  Label label_;
  Fails fails_;
};

/// Says the image's brightness three times, and counts in its recurrent state.
class Counting final : public Acting {
 public:
  static learner::PolicyColumns columns() {
    return {{{"image", DType::kU8, {2, 2}}, {"core", DType::kF32, {1}}},
            {{"values", DType::kF32, {3}}, {"core", DType::kF32, {1}}}};
  }
  explicit Counting(std::vector<std::int64_t>& calls) : calls_(calls) {}
  Status refresh(RoleContext&) override { return {}; }
  Result<std::optional<std::int64_t>> act(RoleContext&, const BatchView& inputs,
                                          const MutableBatchView& outputs) override {
    calls_.push_back(inputs.rows);
    for (std::size_t row = 0; row < static_cast<std::size_t>(inputs.rows); ++row) {
      for (std::size_t i = 0; i < 3; ++i) outputs.as<float>(0)[3 * row + i] = inputs.as<std::uint8_t>(0)[4 * row];
      outputs.as<float>(1)[row] = inputs.as<float>(1)[row] + 1;
    }
    return std::optional<std::int64_t>(7);
  }
  std::string waiting_for() const override { return {}; }
  void report(Report&) const override {}

 private:
  std::vector<std::int64_t>& calls_;
};

/// Any of three, with its log-probability, and with the recurrent state and the values that it was chosen by.
class Uniform final : public acting::Exploration {
 public:
  explicit Uniform(const acting::Explorer& who) : who_(who), rng_(who.seed) {}
  const Signature& acted() const override { return acted_; }
  Status choose(const acting::PolicyRow& policy, std::span<std::byte> acted) override {
    const auto row = static_cast<std::size_t>(policy.row);
    const auto choice = static_cast<std::int32_t>(rng_.below(3));
    const float core = policy.inputs.as<float>(1)[row];
    if (policy.first != (core == 0)) return Error{Code::kInternal, "the state does not begin with the episode"};
    const std::array extras = {core, policy.outputs.as<float>(0)[3 * row], static_cast<float>(who_.index)};
    std::memcpy(acted.data(), &choice, sizeof(choice));
    std::memcpy(acted.data() + sizeof(choice), extras.data(), sizeof(extras));
    return {};
  }
  std::vector<std::byte> save_state() const override {
    const auto words = std::as_bytes(std::span(rng_.state()));
    return {words.begin(), words.end()};
  }
  Status restore_state(std::span<const std::byte> state) override {
    Rng::State words;
    std::memcpy(words.data(), state.data(), sizeof(words));
    rng_.set_state(words);
    return {};
  }

 private:
  const Signature acted_ = {{"action", DType::kI32, {}},
                            {"core", DType::kF32, {1}},
                            {"value", DType::kF32, {}},
                            {"explorer", DType::kF32, {}}};
  acting::Explorer who_;
  Rng rng_;
};

class EnvActorOf : public ::testing::TestWithParam<std::int64_t> {
 protected:
  /// A transition of one step.
  struct Item {
    Label from, to;
    std::int32_t action;
    float core, value, explorer, reward;
    bool operator==(const Item&) const = default;
  };

  EnvActorOf() {
    context.caller("steps").answer = [this](const Frame& request) -> Result<Frame> {
      const auto asked = messages::read_steps_request(request).value();
      return messages::make_steps_grant(context.pool(), {asked.taken, steps_allowed, asked.taken >= steps_allowed});
    };
    context.out("trajectories").room = 100'000;
    context.out("episodes").room = 100'000;
  }
  std::int64_t environments() const { return GetParam(); }

  EnvActorOptions options() {
    EnvActorOptions options;
    options.make_environment = [this](std::uint64_t) -> Result<std::unique_ptr<envs::Environment>> {
      return {std::make_unique<Labelled>(made++ % static_cast<std::int32_t>(environments()), fails)};
    };
    options.acting = {Counting::columns(), {}, {}, [this](const RoleIdentity&, std::int64_t rows) {
                        EXPECT_EQ(rows, environments());
                        return Result<std::unique_ptr<Acting>>(std::make_unique<Counting>(calls));
                      }};
    options.exploration = [](const acting::Explorer& who) -> Result<std::unique_ptr<acting::Exploration>> {
      return {std::make_unique<Uniform>(who)};
    };
    options.adder = replay::n_step_adders(1, 0.9);
    options.environments = environments();
    options.threads = 2;
    return options;
  }
  std::unique_ptr<Role> make() { return EnvActor::make(options(), {"actor", 1, 3, 0, 77}).value(); }

  std::vector<Item> items() {
    std::vector<Item> all;
    for (const Frame& frame : context.out("trajectories").sent) {
      const BatchView rows = messages::read_trajectory(frame).value().rows();
      for (std::size_t r = 0; r < static_cast<std::size_t>(rows.rows); ++r) {
        Item item{};
        std::memcpy(item.from.data(), rows.as<Label>(1).data() + r, sizeof(Label));
        std::memcpy(item.to.data(), rows.as<Label>(9).data() + r, sizeof(Label));
        item.action = rows.as<std::int32_t>(2)[r];
        item.core = rows.as<float>(3)[r];
        item.value = rows.as<float>(4)[r];
        item.explorer = rows.as<float>(5)[r];
        item.reward = rows.as<float>(6)[r];
        EXPECT_EQ(rows.as<std::uint8_t>(0)[4 * r], 200 + item.from[0]);
        all.push_back(item);
      }
    }
    return all;
  }
  std::int64_t steps_sent() {
    std::int64_t steps = 0;
    for (const Frame& frame : context.out("trajectories").sent) {
      steps += messages::read_trajectory(frame).value().info().env_steps;
    }
    return steps;
  }
  static double counter(const Role& role, const std::string& name) {
    Report report;
    role.report(report);
    const auto found = std::ranges::find(report.counters, name, &Scalar::name);
    return found == report.counters.end() ? -1 : found->value;
  }

  FakeContext context;
  std::int64_t steps_allowed = messages::kMostSteps;
  std::vector<std::int64_t> calls;  ///< of the policy: rows
  std::int32_t made = 0;
  Fails fails;
};
INSTANTIATE_TEST_SUITE_P(Environments, EnvActorOf, ::testing::Values(1, 8));

TEST_P(EnvActorOf, EachEnvironmentGivesItsOwnEpisodesAndOneCallOfThePolicyServesAll) {
  auto role = make();
  for (int i = 0; i < 60; ++i) ASSERT_EQ(role->step(context).value(), Progress::kMore);
  std::map<std::int32_t, Label> next;
  for (const Item& item : items()) {
    const auto [environment, episode, step] = item.from;
    const Label expected = next.contains(environment) ? next[environment] : Label{environment, 0, 0};
    EXPECT_EQ(item.from, expected) << "in order, none left out, none of another environment between them";
    EXPECT_EQ(item.to, (Label{environment, episode, step + 1}));
    EXPECT_EQ(item.core, step) << "zero at the start of each episode, then one more each step";
    EXPECT_EQ(item.value, 200 + environment);
    EXPECT_EQ(item.explorer, environments() + environment) << "the second actor of three";
    EXPECT_EQ(item.reward, item.action);
    next[environment] = step + 1 == 20 + environment ? Label{environment, episode + 1, 0} : item.to;
  }
  EXPECT_EQ(next.size(), static_cast<std::size_t>(environments()));
  EXPECT_EQ(steps_sent(), counter(*role, "steps"));
  EXPECT_EQ(static_cast<std::int64_t>(calls.size()) * environments(), steps_sent());
  EXPECT_THAT(calls, ::testing::Each(environments()));
  EXPECT_GE(counter(*role, "episodes"), environments());
  EXPECT_EQ(static_cast<double>(context.out("episodes").sent.size()), counter(*role, "episodes"));
}

TEST_P(EnvActorOf, TakesExactlyTheStepsThatItMay) {
  for (const std::int64_t allowed : {1, 21, 64}) {
    context.out("trajectories").sent.clear();
    steps_allowed = allowed;
    auto role = make();
    Progress progress = Progress::kMore;
    for (int i = 0; i < 200 && progress != Progress::kDone; ++i) {
      progress = role->step(context).value();
      context.manual_clock.advance(std::chrono::milliseconds(20));
    }
    EXPECT_EQ(progress, Progress::kDone);
    EXPECT_EQ(steps_sent(), allowed);
    EXPECT_EQ(counter(*role, "steps"), allowed);
  }
}

TEST_P(EnvActorOf, WhenNotAllMayStepTheyTakeTurns) {
  context.caller("steps").answer = [this](const Frame& request) {
    const auto asked = messages::read_steps_request(request).value();
    return messages::make_steps_grant(context.pool(), {asked.taken, steps_allowed, false});
  };
  auto role = make();
  for (std::int64_t step = 1; step <= 3 * environments(); ++step) {
    steps_allowed = step;
    context.manual_clock.advance(std::chrono::seconds(1));
    ASSERT_TRUE(role->step(context).ok());
    ASSERT_EQ(steps_sent(), step);
  }
  std::map<std::int32_t, std::int64_t> steps;
  for (const Item& item : items()) ++steps[item.from[0]];
  for (const auto& [environment, count] : steps) EXPECT_EQ(count, 3) << environment;
}

TEST_P(EnvActorOf, OneThatFailsIsResetAlone) {
  fails = [](const Label& at) { return at[0] == 0 && at[1] == 1 && at[2] == 5; };
  auto role = make();
  while (counter(*role, "env_failures") < 1) ASSERT_EQ(role->step(context).value(), Progress::kMore);
  for (int i = 0; i < 40; ++i) ASSERT_EQ(role->step(context).value(), Progress::kMore);
  EXPECT_EQ(counter(*role, "env_failures"), 1);
  EXPECT_EQ(steps_sent(), counter(*role, "steps"));
  std::map<std::tuple<std::int32_t, std::int32_t>, std::int32_t> steps;
  for (const Item& item : items()) steps[{item.from[0], item.from[1]}] += 1;
  EXPECT_EQ((steps[{0, 0}]), 20);
  EXPECT_EQ((steps[{0, 1}]), 4) << "broken off";
  EXPECT_EQ((steps[{0, 2}]), 20);
  for (std::int32_t other = 1; other < environments(); ++other) EXPECT_EQ((steps[{other, 0}]), 20 + other);
}

TEST_P(EnvActorOf, OneThatNeverWorksEndsTheInstance) {
  fails = [last = static_cast<std::int32_t>(environments()) - 1](const Label& at) {
    return at[0] == last && at[2] == 0;
  };
  auto role = make();
  auto result = role->step(context);
  while (result.ok()) result = role->step(context);
  EXPECT_THAT(result.error().message, HasSubstr("TRP-E150 environment labelled: reset: it broke; 0 unfinished steps"));
  EXPECT_EQ(steps_sent(), counter(*role, "steps")) << "what was done before is not lost";
}

TEST_P(EnvActorOf, SavedStateContinuesWithTheSameItems) {
  auto role = make();
  for (int i = 0; i < 7; ++i) ASSERT_TRUE(role->step(context).ok());
  const RoleState state = role->save().value();
  context.out("trajectories").sent.clear();
  for (int i = 0; i < 30; ++i) ASSERT_TRUE(role->step(context).ok());
  const auto expected = items();

  context.out("trajectories").sent.clear();
  auto restored = make();
  ASSERT_TRUE(restored->restore(state).ok());
  EXPECT_EQ(restored->save().value().chunks, state.chunks) << "saved again before it acted";
  for (int i = 0; i < 30; ++i) ASSERT_TRUE(restored->step(context).ok());
  EXPECT_TRUE(items() == expected);

  RoleState shorter = state;
  shorter.chunks.pop_back();
  EXPECT_EQ(make()->restore(shorter).error().code, Code::kCorrupt);
  shorter = state;
  shorter.chunks.back().clear();
  EXPECT_THAT(make()->restore(shorter).error().message, HasSubstr("0 bytes of recurrent state, expected 4"));
}

TEST_P(EnvActorOf, PartsThatDoNotFitEachOtherAreRefusedWhenItIsMade) {
  const auto refusal = [&](const EnvActorOptions& bad) {
    return EnvActor::make(bad, {"actor", 0, 1, 0, 1}).error().message;
  };
  EnvActorOptions bad = options();
  bad.acting.columns.inputs[0].dtype = DType::kF32;
  EXPECT_THAT(refusal(bad), HasSubstr("policy: input image: float32[2, 2] is image: uint8[2, 2], expected a column"));
  bad = options();
  bad.acting.columns.inputs.push_back({"sound", DType::kF32, {1}});
  EXPECT_THAT(refusal(bad), HasSubstr("policy: input sound: float32[1] is nowhere"));
  bad = options();
  bad.exploration = acting::gaussian_noise({.low = {-1}, .high = {1}});
  EXPECT_THAT(refusal(bad),
              HasSubstr("the action of labelled: column 0 is action: float32[1], expected action: int32[]"));
}

// ---- with a policy of its own, and by a server ----

/// What an env actor on cartpole sends in `steps` calls of its step().
std::vector<std::vector<std::byte>> trajectories(FakeContext& context, EnvActorOptions options,
                                                 std::int64_t environments, int rounds) {
  options.make_environment = envs::flattened(envs::shared_environments("cartpole-swingup"));
  options.exploration = acting::gaussian_noise({.low = {-1}, .high = {1}});
  options.adder = replay::n_step_adders(5, 0.99);
  options.environments = environments;
  context.caller("steps").answer = [&context](const Frame&) {
    return messages::make_steps_grant(context.pool(), {0, messages::kMostSteps, false});
  };
  auto role = EnvActor::make(options, {"actor", 0, 1, 0, 5}).value();
  context.in("parameters").frames.push_back(testing::parameters_frame(context.pool(), 1));
  for (int i = 0; i < 100 * rounds && static_cast<int>(context.out("trajectories").sent.size()) < rounds; ++i) {
    EXPECT_TRUE(role->step(context).ok());
  }
  std::vector<std::vector<std::byte>> all;
  for (const Frame& frame : context.out("trajectories").sent) {
    const messages::TrajectoryView trajectory = messages::read_trajectory(frame).value();
    for (const auto column : trajectory.rows().columns) {
      all.emplace_back(column.begin(), column.end());
    }
  }
  return all;
}

TEST(ActingOfEnvActors, IsTheSameWithAPolicyOfItsOwnAndByAServer) {
  for (const std::int64_t environments : {1, 8}) {
    FakeContext at_home, calling, serving;
    EnvActorOptions options;
    options.acting = local_acting(testing::small_columns(), testing::small_policy, {});
    const auto expected = trajectories(at_home, options, environments, 5);
    auto server =
        InferenceActor::make(
            {.producers = 1, .rows = environments, .batch_size = environments, .make_policy = testing::small_policy},
            {"inference", 0, 1, 0, 1})
            .value();
    serving.in("parameters").frames.push_back(testing::parameters_frame(serving.pool(), 1));
    calling.caller("inference").answer = [&](const Frame& request) -> Result<Frame> {
      serving.server("requests").requests.push_back(request);
      EXPECT_TRUE(server->step(serving).ok());
      return serving.server("requests").answers.back();
    };
    options.acting = remote_acting(testing::small_columns());
    EXPECT_TRUE(trajectories(calling, options, environments, 5) == expected) << environments;
    EXPECT_EQ(expected.size(), 25u);
  }
}

}  // namespace
}  // namespace troupe::actors
