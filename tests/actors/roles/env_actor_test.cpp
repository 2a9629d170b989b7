#include <troupe/actors/roles/env_actor.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>

#include <troupe/algorithms/acting/gaussian_noise.hpp>
#include <troupe/envs/flattened.hpp>
#include <troupe/messages/inference.hpp>
#include <troupe/messages/reports.hpp>
#include <troupe/messages/trajectory.hpp>
#include <troupe/replay/n_step_adder.hpp>
#include <troupe/tests/actors/fake_context.hpp>
#include <troupe/tests/actors/small_policy.hpp>

namespace troupe::actors {
namespace {

using std::chrono::seconds;
using testing::FakeContext;
using ::testing::HasSubstr;

ActingSpec acting_with(std::int64_t max_versions) {
  return local_acting(testing::small_columns(), testing::small_policy, {max_versions, {"learner"}});
}

EnvActorOptions actor_options(std::int64_t environments = 1) {
  return {.make_environment = envs::flattened(envs::shared_environments("cartpole-swingup")),
          .acting = acting_with(-1),
          .exploration = acting::gaussian_noise({.low = {-1}, .high = {1}}),
          .adder = replay::n_step_adders(5, 0.99),
          .environments = environments};
}

class EnvActorTest : public ::testing::Test {
 protected:
  EnvActorTest() {
    context.caller("steps").answer = [this](const Frame& request) -> Result<Frame> {
      const auto asked = messages::read_steps_request(request).value();
      return messages::make_steps_grant(context.pool(), {asked.taken, steps_allowed, asked.taken >= steps_allowed});
    };
  }
  std::unique_ptr<Role> make(const EnvActorOptions& options, std::int64_t index = 0, std::int64_t count = 1) {
    return EnvActor::make(options, {"actor", index, count, 0, 77 + static_cast<std::uint64_t>(index)}).value();
  }
  void publish(std::int64_t version) {
    context.in("parameters").frames.push_back(testing::parameters_frame(context.pool(), version));
  }
  /// All transitions sent so far, column by column.
  std::vector<float> transitions() {
    std::vector<float> all;
    for (const Frame& frame : context.out("trajectories").sent) {
      const auto view = messages::read_trajectory(frame).value();
      for (std::size_t c = 0; c < view.rows().columns.size(); ++c) {
        const auto values = view.rows().as<float>(c);
        all.insert(all.end(), values.begin(), values.end());
      }
    }
    return all;
  }
  /// Environment steps that were told as acted with, by version.
  std::map<std::int64_t, std::int64_t> uses() {
    std::map<std::int64_t, std::int64_t> steps;
    for (const Frame& frame : context.out("use").sent) {
      const auto use = messages::read_parameters_use(frame).value();
      steps[use.version] += use.env_steps;
    }
    return steps;
  }
  static double counter(const Role& role, const std::string& name) {
    Report report;
    role.report(report);
    for (const Scalar& scalar : report.counters) {
      if (scalar.name == name) return scalar.value;
    }
    ADD_FAILURE() << "no counter " << name;
    return 0;
  }

  FakeContext context;
  std::int64_t steps_allowed = messages::kMostSteps;
};

TEST_F(EnvActorTest, WaitsForTheFirstParameters) {
  auto role = make(actor_options());
  EXPECT_EQ(role->step(context).value(), Progress::kIdle);
  EXPECT_THAT(role->waiting_for(), HasSubstr("no parameters"));
  publish(0);
  EXPECT_EQ(role->step(context).value(), Progress::kMore);
  EXPECT_EQ(context.out("trajectories").sent.size(), 1u);
}

TEST_F(EnvActorTest, WaitsWhenReplayHasNoRoom) {
  auto role = make(actor_options());
  publish(0);
  context.out("trajectories").room = 0;
  EXPECT_EQ(role->step(context).value(), Progress::kIdle);
  EXPECT_TRUE(context.in("parameters").empty()) << "they would keep newer ones back";
}

TEST_F(EnvActorTest, AnEpisodeGivesOneTransitionAStepAndOneReport) {
  auto role = make(actor_options());
  publish(3);
  while (context.out("episodes").sent.empty()) ASSERT_EQ(role->step(context).value(), Progress::kMore);
  std::int64_t rows = 0, steps = 0;
  for (const Frame& frame : context.out("trajectories").sent) {
    const auto view = messages::read_trajectory(frame).value();
    EXPECT_EQ(view.info().parameters_version, 3);
    rows += view.rows().rows;
    steps += view.info().env_steps;
  }
  EXPECT_EQ(steps, 1000);
  // A transition for each start: those that fill the window at the beginning come extra (Acme's adder).
  EXPECT_GE(rows, 1000);
  EXPECT_LE(rows, 1004);
  const auto episode = messages::read_episode(context.out("episodes").sent[0]).value();
  EXPECT_EQ(episode.steps, 1000);
  EXPECT_GE(episode.episode_return, 0);
}

TEST_F(EnvActorTest, IsDoneWhenTheRunHasHadItsSteps) {
  steps_allowed = 21;
  auto role = make(actor_options());
  publish(0);
  Progress progress = Progress::kMore;
  for (int i = 0; i < 100 && progress != Progress::kDone; ++i) {
    progress = role->step(context).value();
    context.manual_clock.advance(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(progress, Progress::kDone);
  EXPECT_EQ(uses()[0], 21);
  std::int64_t sent = 0;
  for (const Frame& frame : context.out("trajectories").sent) {
    sent += messages::read_trajectory(frame).value().info().env_steps;
  }
  EXPECT_EQ(sent, 21);
}

TEST_F(EnvActorTest, TakesNoStepWithoutTheRunsAccountAndSaysSo) {
  context.caller("steps").answer = nullptr;
  auto role = make(actor_options());
  publish(0);
  EXPECT_EQ(role->step(context).value(), Progress::kIdle);
  EXPECT_TRUE(context.out("trajectories").sent.empty());
  EXPECT_THAT(role->waiting_for(), HasSubstr("account of env steps"));
  context.caller("steps").finish(messages::make_steps_grant(context.pool(), {1000, 1064, false}).value());
  EXPECT_EQ(role->step(context).value(), Progress::kMore);
  EXPECT_EQ(counter(*role, "steps"), 1016) << "an earlier incarnation took 1000";
}

TEST_F(EnvActorTest, SavedStateContinuesWithTheSameTransitions) {
  EnvActorOptions options = actor_options();
  options.exploration = acting::gaussian_noise({.low = {-1}, .high = {1}, .correlation = 0.9});
  auto role = make(options);
  publish(0);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(role->step(context).ok());
  const RoleState state = role->save().value();
  context.out("trajectories").sent.clear();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(role->step(context).ok());
  const auto expected = transitions();
  context.out("trajectories").sent.clear();

  auto restored = make(options);
  ASSERT_TRUE(restored->restore(state).ok());
  publish(0);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(restored->step(context).ok());
  EXPECT_EQ(transitions(), expected);

  RoleState other = state;
  std::ranges::fill(std::span(other.chunks[3]).last(sizeof(double)), std::byte{0xff});  // not a number
  EXPECT_THAT(make(options)->restore(other).error().message, HasSubstr("noise[0] = "));
}

TEST_F(EnvActorTest, StateOfAnotherEnvironmentIsRefused) {
  auto role = make(actor_options());
  RoleState state = role->save().value();
  state.chunks[4].resize(4);
  EXPECT_EQ(role->restore(state).error().code, Code::kShapeMismatch);
  state.chunks.clear();
  EXPECT_EQ(role->restore(state).error().code, Code::kCorrupt);
}

// ---- staleness and remote acting
// -------------------------------------------------------------------------------------

TEST_F(EnvActorTest, PastTheStalenessBoundItWaitsAndSaysSo) {
  EnvActorOptions options = actor_options();
  options.acting = acting_with(0);
  auto role = make(options);
  publish(3);
  ASSERT_EQ(role->step(context).value(), Progress::kMore);
  context.in("versions").frames.push_back(testing::version_frame(context.pool(), 4));
  EXPECT_EQ(role->step(context).value(), Progress::kIdle);
  EXPECT_EQ(context.out("trajectories").sent.size(), 1u);
  EXPECT_THAT(role->waiting_for(), HasSubstr("parameters newer than version 3"));
  context.manual_clock.advance(seconds(2));
  publish(4);
  EXPECT_EQ(role->step(context).value(), Progress::kMore);
  EXPECT_EQ(role->waiting_for(), "");
  EXPECT_EQ(counter(*role, "stale_wait_s"), 2);
}

/// An env actor whose actions come from a server that the test plays.
class RemoteEnvActor : public EnvActorTest {
 protected:
  static EnvActorOptions remote_options() {
    EnvActorOptions options = actor_options();
    options.acting = remote_acting(testing::small_columns());
    return options;
  }
  /// One environment step: answers the open call, the answer depending on what was asked.
  void act(Role& role, std::int64_t version, float of_observation = 0.25F) {
    auto& calls = context.caller("inference");
    if (calls.calls.empty()) {
      ASSERT_EQ(role.step(context).value(), Progress::kIdle);
    }
    ASSERT_EQ(calls.calls.size(), 1u);
    const auto request = messages::read_inference_request(calls.calls[0].request).value();
    calls.finish(
        messages::make_inference_answer(
            context.pool(), testing::answer_of(version, std::array{of_observation * request.inputs.as<float>(0)[0]}))
            .value());
    ASSERT_TRUE(role.step(context).ok());
  }
};

TEST_F(RemoteEnvActor, GathersATrajectoryOverManyAnswersAndTellsWhichVersionsActed) {
  auto role = make(remote_options());
  for (int i = 0; i < 15; ++i) act(*role, i < 10 ? 4 : 5);
  EXPECT_TRUE(context.out("trajectories").sent.empty());
  act(*role, 6);
  ASSERT_EQ(context.out("trajectories").sent.size(), 1u);
  const auto trajectory = messages::read_trajectory(context.out("trajectories").sent[0]).value();
  EXPECT_EQ(trajectory.info().parameters_version, 6);
  EXPECT_EQ(trajectory.info().env_steps, 16);
  EXPECT_EQ(trajectory.rows().rows, 16);
  EXPECT_THAT(uses(), ::testing::ElementsAre(std::pair(4, 10), std::pair(5, 5), std::pair(6, 1)));
}

TEST_F(RemoteEnvActor, ItsNoiseHasTheDeviationAndTheCorrelationThatWereAskedFor) {
  for (const double correlation : {0.0, 0.9}) {
    context.out("trajectories").sent.clear();
    EnvActorOptions options = remote_options();
    options.exploration = acting::gaussian_noise({.low = {-1}, .high = {1}, .sigma = 0.1, .correlation = correlation});
    options.adder = replay::n_step_adders(1, 0.99);
    auto role = make(options);
    for (int i = 0; i < 960; ++i) act(*role, 0, 0.0F);
    std::vector<float> noise;
    for (const Frame& frame : context.out("trajectories").sent) {
      const auto view = messages::read_trajectory(frame).value();
      for (const float action : view.rows().as<float>(1)) noise.push_back(action);
    }
    ASSERT_EQ(noise.size(), 960u);
    double squares = 0, products = 0;
    for (std::size_t i = 1; i < noise.size(); ++i) {
      squares += noise[i] * noise[i];
      products += noise[i] * noise[i - 1];
    }
    EXPECT_NEAR(std::sqrt(squares / 959), 0.1, 0.025);
    EXPECT_NEAR(products / squares, correlation, 0.1);
  }
}

TEST_F(RemoteEnvActor, AnEpisodeGoesOnWhenTheServerWasGone) {
  auto role = make(remote_options());
  for (int i = 0; i < 20; ++i) act(*role, 0);
  context.caller("inference").finish(Error{Code::kDeadlineExceeded, "the server is gone"});
  EXPECT_EQ(role->step(context).value(), Progress::kIdle);
  EXPECT_THAT(role->waiting_for(), HasSubstr("the server is gone"));
  for (int i = 20; i < 1000; ++i) act(*role, 0);
  ASSERT_EQ(context.out("episodes").sent.size(), 1u);
  EXPECT_EQ(messages::read_episode(context.out("episodes").sent[0]).value().steps, 1000);
}

TEST_F(RemoteEnvActor, AsksForNoActionThatWouldGrowOldWaitingForRoom) {
  auto role = make(remote_options());
  context.out("trajectories").room = 1;
  for (int i = 0; i < 16; ++i) act(*role, 0);
  EXPECT_EQ(role->step(context).value(), Progress::kIdle);
  EXPECT_TRUE(context.caller("inference").calls.empty());
}

TEST_F(RemoteEnvActor, SavedInTheMiddleOfATrajectoryItContinuesWithTheSameTransitions) {
  auto role = make(remote_options());
  for (int i = 0; i < 23; ++i) act(*role, 0);
  const RoleState state = role->save().value();
  for (int i = 0; i < 25; ++i) act(*role, 0);
  ASSERT_EQ(context.out("trajectories").sent.size(), 3u);
  context.out("trajectories").sent.erase(context.out("trajectories").sent.begin());
  const auto expected = transitions();

  context.out("trajectories").sent.clear();
  context.caller("inference").calls.clear();
  auto restored = make(remote_options());
  ASSERT_TRUE(restored->restore(state).ok());
  EXPECT_EQ(restored->save().value().chunks, state.chunks) << "saved again before it acted";
  for (int i = 0; i < 25; ++i) act(*restored, 0);
  EXPECT_EQ(transitions(), expected);
}

TEST_F(EnvActorTest, ADivergedPolicyEndsTheInstanceNamingTheVersion) {
  EnvActorOptions options = actor_options();
  options.acting = remote_acting(testing::small_columns());
  auto role = make(options);
  ASSERT_TRUE(role->step(context).ok());
  const float nan = std::numeric_limits<float>::quiet_NaN();
  context.caller("inference")
      .finish(messages::make_inference_answer(context.pool(), testing::answer_of(9, std::array{nan})).value());
  EXPECT_EQ(role->step(context).error().message,
            "parameters of version 9 gave action[0] = nan, expected finite values");
}

// ---- consumers that are only for people
// ------------------------------------------------------------------------------

TEST_F(EnvActorTest, ActsOnWhenNobodyTakesItsObservations) {
  auto role = make(actor_options());
  context.out("trajectories").room = 10'000;
  context.out("use").room = 0;
  context.out("episodes").room = 0;
  std::int64_t version = 0;
  while (counter(*role, "episodes") < 20) {
    publish(version++);  // a new version for each trajectory: more than it remembers apart
    ASSERT_EQ(role->step(context).value(), Progress::kMore);
  }
  EXPECT_EQ(counter(*role, "episodes_unreported"), 4);
  context.out("use").room = 1000;
  context.out("episodes").room = 1000;
  publish(version);
  ASSERT_TRUE(role->step(context).ok());
  EXPECT_EQ(context.out("episodes").sent.size(), 16u);
  EXPECT_EQ(context.out("use").sent.size(), 16u);
  std::int64_t steps = 0;
  for (const auto& [acted, count] : uses()) steps += count;
  EXPECT_EQ(steps, counter(*role, "steps"));
  // What was merged counts as of the oldest version, and the newest are told apart.
  EXPECT_EQ(uses().begin()->first, 0);
  EXPECT_EQ(uses().rbegin()->first, version);
  EXPECT_EQ(uses()[version - 1], 8) << "1000 steps: 62 trajectories of 16 and one of 8";
}

// ---- environments that fail
// ------------------------------------------------------------------------------------------

enum class Fault { kNone, kError, kException, kNanObservation, kInfiniteReward, kBadDiscount, kFirstStepAgain };

/// Episodes of 30 steps. Each observation holds the episode's number. `fault(episode, step)` says what goes wrong; step
/// 0 is the reset.
class FaultyEnvironment final : public envs::Environment {
 public:
  using Faults = std::function<Fault(int episode, int step)>;
  explicit FaultyEnvironment(Faults faults) : faults_(std::move(faults)) {
    spec_.name = "faulty";
    spec_.observation = {{"x", DType::kF64, {5}}};
    spec_.action = envs::ActionSpec::continuous({-1}, {1});
    spec_.episode_steps = 30;
  }
  const envs::EnvSpec& spec() const override { return spec_; }
  Result<envs::TimeStep> reset(std::uint64_t, std::span<std::byte> observation) override { return reset(observation); }
  Result<envs::TimeStep> reset(std::span<std::byte> observation) override {
    ++episode_;
    step_ = 0;
    return answer(envs::StepType::kFirst, observation);
  }
  Result<envs::TimeStep> step(std::span<const std::byte>, std::span<std::byte> observation) override {
    ++step_;
    return answer(step_ == 30 ? envs::StepType::kLast : envs::StepType::kMid, observation);
  }
  std::vector<std::byte> save_state() const override { return {}; }
  Status restore_state(std::span<const std::byte>) override { return {}; }
  Status render(const envs::RenderOptions&, std::span<std::uint8_t>) override {
    return Error{Code::kUnavailable, "nothing to see"};
  }

 private:
  Result<envs::TimeStep> answer(envs::StepType type, std::span<std::byte> observation) {
    std::array<double, 5> values;
    values.fill(episode_);
    envs::TimeStep result{type, type == envs::StepType::kFirst ? 0.0 : 1.0, 1};
    switch (faults_(episode_, step_)) {
      case Fault::kNone:
        break;
      case Fault::kError:
        return Error{Code::kInternal, "the simulation has diverged"};
      case Fault::kException:
        throw std::runtime_error("index out of range");
      case Fault::kNanObservation:
        values[3] = std::numeric_limits<double>::quiet_NaN();
        break;
      case Fault::kInfiniteReward:
        result.reward = std::numeric_limits<double>::infinity();
        break;
      case Fault::kBadDiscount:
        result.discount = 1.5;
        break;
      case Fault::kFirstStepAgain:
        result.type = envs::StepType::kFirst;
        break;
    }
    std::ranges::copy(std::as_bytes(std::span(values)), observation.begin());
    return result;
  }

  envs::EnvSpec spec_;
  Faults faults_;
  int episode_ = 0;
  int step_ = 0;
};

class FailingEnvironment : public EnvActorTest {
 protected:
  std::unique_ptr<Role> make_with(FaultyEnvironment::Faults faults) {
    EnvActorOptions options = actor_options();
    options.make_environment = envs::flattened([faults](std::uint64_t) -> Result<std::unique_ptr<envs::Environment>> {
      return {std::make_unique<FaultyEnvironment>(faults)};
    });
    publish(0);
    return make(options);
  }
};

TEST_F(FailingEnvironment, CostsItsEpisodeAndNothingElse) {
  for (Fault fault : {Fault::kError, Fault::kException, Fault::kNanObservation, Fault::kInfiniteReward,
                      Fault::kBadDiscount, Fault::kFirstStepAgain}) {
    SCOPED_TRACE(static_cast<int>(fault));
    context.out("trajectories").sent.clear();
    context.out("episodes").sent.clear();
    auto role = make_with([fault](int episode, int step) { return episode == 2 && step == 21 ? fault : Fault::kNone; });
    while (context.out("episodes").sent.size() < 2) ASSERT_EQ(role->step(context).value(), Progress::kMore);
    EXPECT_EQ(counter(*role, "env_failures"), 1);
    EXPECT_EQ(counter(*role, "steps"), 30 + 20 + 30);
    // Of the 20 steps of the second episode the last four had not seen their 5-step return.
    EXPECT_EQ(counter(*role, "steps_dropped"), 4);
    std::int64_t rows[4] = {};
    for (const Frame& frame : context.out("trajectories").sent) {
      const auto view = messages::read_trajectory(frame).value();
      for (std::int64_t r = 0; r < view.rows().rows; ++r) {
        const float from = view.rows().as<float>(0)[static_cast<std::size_t>(r) * 5];
        const float to = view.rows().as<float>(4)[static_cast<std::size_t>(r) * 5];
        EXPECT_EQ(from, to) << "a transition across the failure";
        ++rows[static_cast<int>(from)];
      }
    }
    // A full episode gives a transition a step and 4 more as the window fills and empties.
    EXPECT_EQ(rows[1], 34);
    EXPECT_EQ(rows[2], 20);
    EXPECT_EQ(rows[3], 34);
  }
}

TEST_F(FailingEnvironment, FiveFailuresInAMinuteEndTheInstanceWithOneClearError) {
  auto role = make_with([](int, int step) { return step == 7 ? Fault::kNanObservation : Fault::kNone; });
  for (int failures = 1; failures < 5; ++failures) {
    while (counter(*role, "env_failures") < failures) ASSERT_EQ(role->step(context).value(), Progress::kMore);
    context.manual_clock.advance(seconds(14));
  }
  auto last = role->step(context);
  while (last.ok()) last = role->step(context);
  EXPECT_EQ(last.error().message,
            "TRP-E150 environment faulty: step: got observation[3] = nan, expected finite values; 4 unfinished steps "
            "dropped (failure 5 in 60 s)");
}

TEST_F(FailingEnvironment, FailuresFurtherApartAreOnlyCounted) {
  auto role = make_with([](int, int step) { return step == 0 ? Fault::kError : Fault::kNone; });
  for (int failures = 1; failures <= 12; ++failures) {
    ASSERT_EQ(role->step(context).value(), Progress::kMore) << failures;
    context.manual_clock.advance(seconds(15));
  }
  EXPECT_EQ(counter(*role, "env_failures"), 12);
  EXPECT_EQ(counter(*role, "steps"), 0);
}

}  // namespace
}  // namespace troupe::actors
