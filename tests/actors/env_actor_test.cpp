#include <troupe/actors/env_actor.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <troupe/learner/d4pg/learner.hpp>
#include <troupe/messages/parameters.hpp>
#include <troupe/messages/reports.hpp>
#include <troupe/messages/trajectory.hpp>
#include <troupe/tests/actors/fake_context.hpp>

namespace troupe::actors {
namespace {

using testing::FakeContext;

learner::d4pg::Options network() {
  learner::d4pg::Options options;
  options.environment = {5, {-1}, {1}};  // cartpole
  options.policy_sizes = {16};
  options.critic_sizes = {16};
  return options;
}

EnvActorOptions actor_options() {
  return {.env = "cartpole-swingup", .make_policy = [] { return learner::d4pg::make_policy(network(), {}); }};
}

class EnvActorTest : public ::testing::Test {
 protected:
  std::unique_ptr<Role> make(const EnvActorOptions& options, std::int64_t index = 0, std::int64_t count = 1) {
    return EnvActor::make(options, {"actor", index, count, 0, 77 + static_cast<std::uint64_t>(index)}).value();
  }
  void publish(std::int64_t version) {
    const auto policy = learner::d4pg::make_policy(network(), {}).value();
    const auto values = std::as_bytes(policy->parameters().values());
    auto builder = messages::ParametersBuilder::make(context.pool(), DType::kF32,
                                                     static_cast<std::int64_t>(values.size() / sizeof(float)))
                       .value();
    std::copy(values.begin(), values.end(), builder.data().begin());
    context.in("parameters")
        .frames.push_back(std::move(builder).finish({version, policy->parameters().fingerprint(), 0, DType::kF32}));
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

  FakeContext context;
};

TEST_F(EnvActorTest, WaitsForTheFirstParameters) {
  auto role = make(actor_options());
  EXPECT_EQ(role->step(context).value(), Progress::kIdle);
  EXPECT_THAT(role->waiting_for(), ::testing::HasSubstr("no parameters"));
  publish(0);
  EXPECT_EQ(role->step(context).value(), Progress::kMore);
  EXPECT_EQ(context.out("trajectories").sent.size(), 1u);
}

TEST_F(EnvActorTest, WaitsWhenReplayHasNoRoom) {
  auto role = make(actor_options());
  publish(0);
  context.out("trajectories").room = 0;
  EXPECT_EQ(role->step(context).value(), Progress::kIdle);
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

TEST_F(EnvActorTest, IsDoneAfterItsShareOfTheSteps) {
  EnvActorOptions options = actor_options();
  options.max_env_steps = 41;
  auto first = make(options, 0, 2);
  publish(0);
  std::int64_t steps = 0;
  while (first->step(context).value() != Progress::kDone) {
  }
  for (const Frame& frame : context.out("use").sent) steps += messages::read_parameters_use(frame).value().env_steps;
  EXPECT_EQ(steps, 21);  // 41 = 21 + 20
}

TEST_F(EnvActorTest, SavedStateContinuesWithTheSameTransitions) {
  auto role = make(actor_options());
  publish(0);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(role->step(context).ok());
  const RoleState state = role->save().value();
  context.out("trajectories").sent.clear();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(role->step(context).ok());
  const auto expected = transitions();
  context.out("trajectories").sent.clear();

  auto restored = make(actor_options());
  ASSERT_TRUE(restored->restore(state).ok());
  publish(0);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(restored->step(context).ok());
  EXPECT_EQ(transitions(), expected);
}

TEST_F(EnvActorTest, StateOfAnotherEnvironmentIsRefused) {
  auto role = make(actor_options());
  RoleState state = role->save().value();
  state.chunks[2].resize(4);
  EXPECT_EQ(role->restore(state).error().code, Code::kShapeMismatch);
  state.chunks.clear();
  EXPECT_EQ(role->restore(state).error().code, Code::kCorrupt);
}

}  // namespace
}  // namespace troupe::actors
