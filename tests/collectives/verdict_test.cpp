#include <troupe/collectives/verdict.hpp>

#include <gtest/gtest.h>

namespace troupe::collectives {
namespace {

using namespace std::chrono_literals;

TEST(Verdict, SaysWhoHasNotEnteredWhatAndWhatItDoesInstead) {
  const Call call{.kind = CallKind::kAllReduce, .name = "D/block2/conv1", .count = 3};
  GroupView view{.rank = 0, .size = 4};
  const MissingRank missing{.rank = 3, .now = Activity::Now{.step = 411, .what = "input_fn", .since = 7100ms}};
  EXPECT_EQ(verdict(412, view, call, {&missing, 1}),
            "step 412: rank 3 has not entered all_reduce(D/block2/conv1); it is in input_fn for 7.1 s");
  view.members = {{}, {}, {}, {.id = 9, .name = "node B, learner-1"}};
  EXPECT_EQ(
      verdict(412, view, call, {&missing, 1}),
      "step 412: rank 3 (node B, learner-1) has not entered all_reduce(D/block2/conv1); it is in input_fn for 7.1 s");
}

TEST(Verdict, NamesEveryMissingRank) {
  const Call call{.kind = CallKind::kBarrier, .name = "start"};
  const MissingRank missing[] = {{.rank = 1}, {.rank = 2, .has_entered = true, .now = Activity::Now{}}};
  EXPECT_EQ(verdict(0, {.size = 3}, call, missing),
            "step 0: rank 1 has not entered barrier(start); rank 2 does not go on with barrier(start)");
}

TEST(ActivityMirror, ShowsWhatTheActivitySays) {
  ActivityMirror mirror;
  EXPECT_EQ(mirror.now().what, "");
  Activity activity;
  activity.enter("input_fn");
  activity.show_in(&mirror);
  activity.begin_step(7);
  EXPECT_EQ(mirror.now().step, 7);
  EXPECT_EQ(mirror.now().what, "input_fn");
  activity.enter(std::string(1000, 'x'));
  EXPECT_EQ(mirror.now().what, std::string(111, 'x'));
  activity.show_in(nullptr);
  activity.enter("compute");
  EXPECT_EQ(mirror.now().what, std::string(111, 'x'));
}

}  // namespace
}  // namespace troupe::collectives
