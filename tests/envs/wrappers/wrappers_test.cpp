// What wrappers change, and that all else is the environment's inside. Those of images and of drawn pixels have files
// of their own; the contract of an environment is held by environment_test.cpp over wrapped ones too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include <troupe/envs/wrapper.hpp>
#include <troupe/envs/wrappers/action_repeat.hpp>
#include <troupe/envs/wrappers/reward_scale.hpp>
#include <troupe/envs/wrappers/time_limit.hpp>
#include <troupe/tests/envs/wrappers/play.hpp>

namespace troupe::envs {
namespace {

using test::counting;
using test::Play;
using test::refusal;

MakeEnvironment around(const MakeEnvironment& make, const Wrap& wrap) { return wrapped(make, {{"wrapper", wrap}}); }

TEST(ActionRepeat, AddsRewardsAndMultipliesDiscounts) {
  Play play(around(counting({.limit = 10, .discount = 0.5}), action_repeat(4)));
  EXPECT_EQ(play.env->spec().episode_steps, 3);  // of 4, 4 and 2
  EXPECT_EQ(play.env->spec().control_dt, 2);
  EXPECT_TRUE(play.reset().first());
  TimeStep step = play.step();
  EXPECT_EQ(step.type, StepType::kMid);
  EXPECT_EQ(step.reward, 1 + 2 + 3 + 4);
  EXPECT_EQ(step.discount, 0.0625);
  EXPECT_EQ(play.column<double>("count"), std::vector<double>{4});
  play.step();
  step = play.step();
  EXPECT_TRUE(step.last());
  EXPECT_EQ(step.reward, 9 + 10);
  EXPECT_EQ(step.discount, 0.25);
  EXPECT_EQ(play.try_step().error().code, Code::kUnavailable);
}

TEST(ActionRepeat, StopsWhereTheTaskEnds) {
  Play play(around(counting({.task_steps = 6}), action_repeat(4)));
  play.reset();
  play.step();
  const TimeStep step = play.step();
  EXPECT_TRUE(step.last());
  EXPECT_EQ(step.reward, 5 + 6);
  EXPECT_EQ(step.discount, 0);
}

TEST(TimeLimit, EndsAnEpisodeWithTheDiscountOfAnyStep) {
  Play play(around(counting(), time_limit(3)));
  EXPECT_EQ(play.env->spec().episode_steps, 3);
  for (int episode = 0; episode < 2; ++episode) {
    play.reset();
    EXPECT_FALSE(play.step().last());
    EXPECT_FALSE(play.step().last());
    const TimeStep step = play.step();
    EXPECT_TRUE(step.last());
    EXPECT_EQ(step.discount, 1);
    EXPECT_EQ(play.try_step().error().message, "counting: step() outside of an episode, expected reset()");
  }
}

TEST(TimeLimit, LeavesTheTaskItsOwnEnd) {
  for (const std::int64_t task_steps : {2, 3}) {
    Play play(around(counting({.task_steps = task_steps}), time_limit(3)));
    play.reset();
    TimeStep step = play.step();
    while (!step.last()) step = play.step();
    EXPECT_EQ(play.column<double>("count"), std::vector<double>{static_cast<double>(task_steps)});
    EXPECT_EQ(step.discount, 0);
    EXPECT_EQ(play.try_step().error().code, Code::kUnavailable);
  }
}

TEST(TimeLimit, IsSavedWithTheState) {
  Play play(around(counting(), time_limit(3))), other(around(counting(), time_limit(3)));
  play.reset();
  play.step();
  play.step();
  ASSERT_TRUE(other.env->restore_state(play.env->save_state()).ok());
  EXPECT_TRUE(other.step().last());
  EXPECT_EQ(other.column<double>("count"), std::vector<double>{3});
}

TEST(TimeLimit, RefusesWhatIsLongerThanAnEpisode) {
  EXPECT_EQ(refusal(counting(), time_limit(10)), "ok");
  EXPECT_EQ(refusal(counting(), time_limit(11)),
            "wrapper: got 11 steps, but an episode of counting has 10: expected no more");
}

TEST(RewardScale, ChangesNothingButRewards) {
  Play play(around(counting({.discount = 0.5}), reward_scale(-0.25)));
  EXPECT_EQ(play.reset().reward, 0);
  const TimeStep step = play.step();
  EXPECT_EQ(step.reward, -0.25);
  EXPECT_EQ(step.discount, 0.5);
  EXPECT_EQ(play.column<double>("count"), std::vector<double>{1});
  EXPECT_EQ(play.env->spec().episode_steps, 10);
}

TEST(Wrapped, TheFirstIsTheInnermost) {
  // Two steps of three repetitions, or a limit of two that is met within the first three.
  Play limited(wrapped(counting(), {{"a", action_repeat(3)}, {"b", time_limit(2)}}));
  limited.reset();
  EXPECT_EQ(limited.step().reward, 6);
  const TimeStep second = limited.step();
  EXPECT_EQ(second.reward, 15);
  EXPECT_TRUE(second.last());
  Play repeated(wrapped(counting(), {{"b", time_limit(2)}, {"a", action_repeat(3)}}));
  repeated.reset();
  const TimeStep step = repeated.step();
  EXPECT_EQ(step.reward, 3);
  EXPECT_TRUE(step.last());
}

TEST(Wrapped, AStateThatIsRefusedChangesNothing) {
  const MakeEnvironment make = wrapped(counting(), {{"limit", time_limit(3)}, {"scale", reward_scale(2)}});
  Play play(make);
  play.reset();
  play.step();
  const std::vector<std::byte> before = play.env->save_state();
  play.step();
  std::vector<std::vector<std::byte>> damaged(5, play.env->save_state());
  damaged[0].clear();
  damaged[1].resize(7);
  damaged[2].pop_back();
  damaged[3][0] = std::byte{77};     // steps that the limit does not allow
  damaged[4][15] = std::byte{0x80};  // a count below 0 inside, found when the wrapper's own state is taken already
  for (std::size_t i = 0; i < damaged.size(); ++i) {
    ASSERT_TRUE(play.env->restore_state(before).ok());
    const Status restored = play.env->restore_state(damaged[i]);
    ASSERT_FALSE(restored.ok()) << i;
    EXPECT_EQ(restored.error().code, Code::kCorrupt);
    EXPECT_EQ(play.env->save_state(), before) << i;
  }
}

TEST(Wrapped, AnErrorBeginsWithTheWrappersName) {
  const Wrap no = [](std::unique_ptr<Environment>, std::uint64_t) -> Result<std::unique_ptr<Environment>> {
    return Error{Code::kInvalidArgument, "it does not fit"};
  };
  EXPECT_EQ(wrapped(counting(), {{"scale", reward_scale(2)}, {"odd", no}})(0).error().message, "odd: it does not fit");
}

TEST(Wrapped, EachWrapperHasASeedOfItsOwn) {
  std::vector<std::uint64_t> seeds;
  const Wrap note = [&](std::unique_ptr<Environment> inside,
                        std::uint64_t seed) -> Result<std::unique_ptr<Environment>> {
    seeds.push_back(seed);
    return inside;
  };
  const MakeEnvironment make = wrapped(counting(), {{"a", note}, {"b", note}});
  for (const std::uint64_t seed : {1, 2, 1}) ASSERT_TRUE(make(seed).ok());
  ASSERT_EQ(seeds.size(), 6u);
  EXPECT_EQ(std::set<std::uint64_t>(seeds.begin(), seeds.end()).size(), 4u);
  EXPECT_EQ(seeds[0], seeds[4]);
  EXPECT_EQ(seeds[1], seeds[5]);
}

}  // namespace
}  // namespace troupe::envs
