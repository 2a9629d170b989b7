// What a role in a group makes of a failure: a new epoch helps, its input has nothing yet, or it is an error.
#include <troupe/actors/runtime/group_member.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include <troupe/actors/roles/input_feed.hpp>
#include <troupe/actors/roles/trainer.hpp>
#include <troupe/collectives/in_process.hpp>
#include <troupe/tests/actors/fake_context.hpp>
#include <troupe/tests/actors/small_replica.hpp>

namespace troupe::actors {
namespace {

using namespace std::chrono_literals;
using collectives::GroupView;
using ::testing::HasSubstr;

GroupMember::Join reform(const GroupMember& member) {
  return [&member](const GroupView& view, Duration timeout) { return member.communicator().reform(view, timeout); };
}

TEST(GroupMember, AloneItAlwaysMayStep) {
  GroupMember alone(nullptr);
  EXPECT_TRUE(alone.is_first());
  EXPECT_TRUE(alone.enter([](const GroupView&, Duration) { return Status(Error{}); }).value());
  EXPECT_FALSE(alone.epoch_ended({Code::kCancelled, "told to stop"}));
  EXPECT_EQ(alone.finish().value(), Progress::kDone);
}

TEST(GroupMember, FollowsItsSeatAndAsksForANewEpochOnlyWhenThatHelps) {
  collectives::InProcessHub hub;
  const auto seat = std::make_shared<GroupSeat>(hub.make());
  GroupMember member(seat);
  EXPECT_FALSE(member.enter(reform(member)).value()) << "no view yet";
  seat->seat({.epoch = 1, .rank = 0, .size = 1});
  EXPECT_TRUE(member.enter(reform(member)).value());
  EXPECT_TRUE(member.enter([](const GroupView&, Duration) { return Status(Error{}); }).value()) << "entered twice";

  for (const Code code : {Code::kCancelled, Code::kDeadlineExceeded}) {
    EXPECT_TRUE(member.epoch_ended({code, "rank 1 did not come"}));
    const auto broken = seat->take_broken();
    ASSERT_TRUE(broken.has_value());
    EXPECT_EQ(broken->first, 1U);
    EXPECT_EQ(broken->second, "rank 1 did not come");
  }
  for (const Code code :
       {Code::kUnavailable, Code::kShapeMismatch, Code::kCorrupt, Code::kInternal, Code::kInvalidArgument}) {
    EXPECT_FALSE(member.epoch_ended({code, "no new epoch mends this"}));
    EXPECT_FALSE(seat->take_broken().has_value());
  }
  // The chief has spoken meanwhile: it is not asked again.
  seat->seat({.epoch = 2, .rank = 0, .size = 1});
  EXPECT_TRUE(member.epoch_ended({Code::kCancelled, "the group has a new epoch"}));
  EXPECT_FALSE(seat->take_broken().has_value());
  EXPECT_TRUE(member.enter(reform(member)).value());
  EXPECT_EQ(member.finish().value(), Progress::kDone);
  seat->vacate("a cut");
  EXPECT_EQ(member.finish().value(), Progress::kIdle);
}

TEST(GroupMember, AnEpochThatDoesNotBeginIsGivenUpOrAnError) {
  collectives::InProcessHub hub;
  const auto seat = std::make_shared<GroupSeat>(hub.make());
  GroupMember member(seat);
  seat->seat({.epoch = 4, .rank = 0, .size = 2});
  const auto fails_with = [](Code code) {
    return [code](const GroupView&, Duration) { return Status(Error{code, "nobody"}); };
  };
  EXPECT_FALSE(member.enter(fails_with(Code::kDeadlineExceeded)).value());
  EXPECT_EQ(seat->take_broken()->first, 4U);
  // As when no member of the group has a whole state: another epoch would end the same way.
  const auto refused = member.enter(fails_with(Code::kCorrupt));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "nobody");
  EXPECT_FALSE(seat->take_broken().has_value());
  // Its ranks have met, but did not come to agree: nobody steps before the next epoch.
  seat->seat({.epoch = 5, .rank = 0, .size = 1});
  const auto meets_only = [&](const GroupView& view, Duration timeout) -> Status {
    TROUPE_TRY(member.communicator().reform(view, timeout));
    return Error{Code::kCancelled, "rank 1 has left"};
  };
  for (int tries = 0; tries < 2; ++tries) EXPECT_FALSE(member.enter(meets_only).value());
  seat->seat({.epoch = 6, .rank = 0, .size = 1});
  EXPECT_TRUE(member.enter(reform(member)).value());
}

/// A line whose input has nothing at every other call.
class Hesitant final : public learner::Replica {
 public:
  Result<std::unique_ptr<learner::InputPipeline>> input_fn(const learner::InputContext& context) override {
    class Input final : public learner::InputPipeline {
     public:
      explicit Input(const learner::InputContext& context) : inner_(context) {}
      const Signature& signature() const override { return inner_.signature(); }
      Result<BatchView> next() override {
        if (++calls_ % 2 == 1) return Error{Code::kUnavailable, "nothing yet"};
        return inner_.next();
      }

     private:
      testing::LineInput inner_;
      int calls_ = 0;
    };
    return {std::make_unique<Input>(context)};
  }
  void step_fn(learner::ReplicaContext& context, const learner::StepInputs& inputs) override {
    line_.step_fn(context, inputs);
  }

 private:
  testing::Line line_{true};
};

/// A member of the role, and its seat in a group.
struct Member {
  Member(collectives::InProcessHub& hub, std::uint32_t index, bool hesitates)
      : seat(std::make_shared<GroupSeat>(hub.make())) {
    const MakeReplica hesitant = [] { return Result<std::unique_ptr<learner::Replica>>(std::make_unique<Hesitant>()); };
    const TrainerOptions options{.feed = input_feed(hesitates ? hesitant : testing::make_line(true)),
                                 .how = {.kind = learner::ReplicatorKind::kMultiWorker, .global_batch = 8},
                                 .count = 2,
                                 .max_steps = 20};
    role = Trainer::make(options, {.role = "line", .index = index, .count = 2, .group = seat}).value();
  }
  std::shared_ptr<GroupSeat> seat;
  std::unique_ptr<Role> role;
  testing::FakeContext context;
};

TEST(TrainerInAGroup, WaitsForInputWithoutBreakingItsGroup) {
  collectives::InProcessHub hub;
  Member eager(hub, 0, false), hesitant(hub, 1, true);
  eager.seat->seat({.epoch = 1, .rank = 0, .size = 2});
  hesitant.seat->seat({.epoch = 1, .rank = 1, .size = 2});
  const auto run = [](Member& member) {
    int idle = 0;
    for (;;) {
      const auto progress = member.role->step(member.context);
      EXPECT_TRUE(progress.ok()) << progress.error().message;
      if (!progress.ok() || *progress == Progress::kDone) return idle;
      if (*progress != Progress::kIdle) continue;
      EXPECT_EQ(member.role->waiting_for(), "nothing yet");
      EXPECT_GT(member.context.woken_after, Duration::zero());
      ++idle;
    }
  };
  std::jthread other([&] { EXPECT_EQ(run(eager), 0); });
  EXPECT_EQ(run(hesitant), 20) << "once before each step";
  EXPECT_FALSE(eager.seat->take_broken() || hesitant.seat->take_broken());
}

TEST(TrainerInAGroup, IdlesBetweenEpochsAndEndsWithAnError) {
  collectives::InProcessHub hub;
  Member member(hub, 0, false);
  const auto step = [&] { return member.role->step(member.context); };
  EXPECT_EQ(step().value(), Progress::kIdle) << "no seat yet";
  member.seat->seat({.epoch = 1, .rank = 0, .size = 1});
  EXPECT_EQ(step().value(), Progress::kMore);
  member.seat->vacate("a cut");
  EXPECT_EQ(step().value(), Progress::kIdle);
  member.seat->seat({.epoch = 2, .rank = 0, .size = 1});
  EXPECT_EQ(step().value(), Progress::kMore);
  // Nobody else says that the group has two ranks: a mistake, which the next epoch would repeat.
  const auto stranger = hub.make();
  ASSERT_TRUE(stranger->reform({.epoch = 3, .rank = 0, .size = 1}, 20s).ok());
  member.seat->seat({.epoch = 3, .rank = 1, .size = 2});
  const auto refused = step();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kShapeMismatch);
  EXPECT_FALSE(member.seat->take_broken().has_value());
}

}  // namespace
}  // namespace troupe::actors
