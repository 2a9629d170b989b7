#include <troupe/actors/control/membership.hpp>

#include <gtest/gtest.h>

namespace troupe::actors {
namespace {

using std::chrono::milliseconds;
using Verdict = Membership::Verdict;
using State = Membership::State;

class MembershipTest : public ::testing::Test {
 protected:
  Verdict join(std::uint64_t birth, std::uint32_t running = 0) { return members_.join("worker", birth, running, now_); }
  const Membership::Node& worker() const { return *members_.find("worker"); }
  /// Heartbeat periods pass, in time; a node that is `alive` is heard in each.
  std::vector<Membership::Death> pass(int beats, bool alive) {
    std::vector<Membership::Death> all;
    for (int i = 0; i < beats; ++i) {
      now_ += milliseconds(100);
      if (alive) members_.heard("worker", now_);
      for (const auto& death : members_.tick(now_)) all.push_back(death);
    }
    return all;
  }

  Membership members_{{}};
  Duration now_ = milliseconds(5000);
};

TEST_F(MembershipTest, EveryProcessOfANodeGetsTheNextIncarnation) {
  EXPECT_EQ(join(7), Verdict::kNew);
  EXPECT_EQ(worker().incarnation, 1u);
  ASSERT_EQ(pass(20, false).size(), 1u);
  EXPECT_EQ(join(8), Verdict::kNew);
  EXPECT_EQ(worker().incarnation, 2u);
  members_.left("worker");
  EXPECT_FALSE(members_.up("worker"));
  EXPECT_EQ(join(9), Verdict::kNew);
  EXPECT_EQ(worker().incarnation, 3u);
  EXPECT_TRUE(members_.up("worker"));
}

TEST_F(MembershipTest, AnExpectedNodeIsNeitherUpNorDeadBeforeItJoins) {
  members_.expect("worker", 4);
  EXPECT_TRUE(pass(100, false).empty());
  EXPECT_EQ(worker().state, State::kExpected);
  EXPECT_EQ(join(7), Verdict::kNew);
  EXPECT_EQ(worker().incarnation, 5u);
}

TEST_F(MembershipTest, AProcessThatReconnectsKeepsItsIncarnation) {
  join(7);
  members_.lost("worker", 7, now_);
  now_ += milliseconds(50);
  EXPECT_EQ(join(7, 1), Verdict::kAgain);
  EXPECT_EQ(worker().incarnation, 1u);
  EXPECT_TRUE(pass(50, true).empty()) << "the lost connection still counts";
}

TEST_F(MembershipTest, AProcessThatAnEarlierChiefKnewKeepsItsIncarnation) {
  members_.expect("worker", 3);
  EXPECT_EQ(join(7, 3), Verdict::kAgain);
  EXPECT_EQ(worker().incarnation, 3u);
  EXPECT_EQ(worker().birth, 7u);
}

TEST_F(MembershipTest, AJoinOfBeforeTheWelcomeCountsUntilTheWelcomeIsAnswered) {
  EXPECT_EQ(join(7), Verdict::kNew);
  EXPECT_EQ(join(7), Verdict::kAgain) << "the welcome may have been lost";
  members_.heard("worker", now_);
  EXPECT_EQ(join(7), Verdict::kAgain) << "that was nothing that only the welcomed say";
  members_.heard("worker", now_, 1);
  EXPECT_EQ(join(7), Verdict::kStale);
  EXPECT_EQ(join(7, 1), Verdict::kAgain);
  EXPECT_EQ(join(7), Verdict::kStale);
  EXPECT_EQ(worker().incarnation, 1u);
  EXPECT_EQ(pass(10, false).size(), 1u);
  EXPECT_EQ(join(8), Verdict::kNew);
  EXPECT_EQ(join(8), Verdict::kAgain) << "the next process has not answered yet";
}

TEST_F(MembershipTest, AtTheNextChiefAJoinOfBeforeTheWelcomeGetsTheNextIncarnationAndTheOneBehindItKeepsThat) {
  members_.expect("worker", 1);
  EXPECT_EQ(join(7), Verdict::kNew);
  EXPECT_EQ(worker().incarnation, 2u);
  EXPECT_EQ(join(7, 1), Verdict::kAgain);
  EXPECT_EQ(worker().incarnation, 2u);
  EXPECT_EQ(join(7), Verdict::kAgain) << "it has not said yet that it knows the second";
  members_.heard("worker", now_, 2);
  EXPECT_EQ(join(7), Verdict::kStale);
}

TEST_F(MembershipTest, WhoeverWasDeclaredDeadIsFencedWhenItWakesUp) {  // F7
  join(7);
  ASSERT_EQ(pass(20, false).size(), 1u);
  EXPECT_EQ(join(7, 1), Verdict::kFenced) << "before its successor";
  EXPECT_EQ(worker().state, State::kDead);
  EXPECT_EQ(join(8), Verdict::kNew);
  EXPECT_EQ(join(7, 1), Verdict::kFenced) << "beside its successor";
  EXPECT_EQ(worker().birth, 8u);
  EXPECT_TRUE(members_.up("worker"));
}

TEST_F(MembershipTest, WhoeverAnEarlierChiefDeclaredDeadIsFencedToo) {
  members_.expect("worker", 4);  // incarnation 3 has ended, says the journal
  EXPECT_EQ(join(7, 3), Verdict::kFenced);
  EXPECT_EQ(join(8), Verdict::kNew);
}

TEST_F(MembershipTest, WhoeverAnEarlierChiefDeclaredDeadIsFencedAlsoWhenItsPlaceIsAnothers) {
  members_.remember("worker", 2);
  EXPECT_EQ(members_.find("worker")->state, Membership::State::kLeft) << "nobody waits for it";
  EXPECT_EQ(join(7, 1), Verdict::kFenced);
  EXPECT_EQ(join(8), Verdict::kNew);
  EXPECT_EQ(members_.find("worker")->incarnation, 3u);
}

TEST_F(MembershipTest, AnOldProcessIsFencedEvenWhenItsBirthIsForgotten) {
  for (std::uint64_t birth = 1; birth <= 40; ++birth) {
    ASSERT_EQ(join(birth), Verdict::kNew);
    ASSERT_EQ(pass(20, false).size(), 1u);
  }
  EXPECT_LT(worker().dead.size(), 40u);
  EXPECT_EQ(join(1, 1), Verdict::kFenced);
}

TEST_F(MembershipTest, TheFirstHolderOfANameKeepsItWhileItLives) {  // F20
  join(7);
  EXPECT_EQ(join(8), Verdict::kTaken);
  EXPECT_EQ(join(8, 1), Verdict::kTaken) << "it lies about its incarnation";
  EXPECT_EQ(worker().birth, 7u);
  EXPECT_EQ(join(7, 1), Verdict::kAgain);
  ASSERT_EQ(pass(20, false).size(), 1u);
  EXPECT_EQ(join(8), Verdict::kNew);
}

TEST_F(MembershipTest, SilenceOfASecondIsDeathAndALittleLessIsNot) {
  join(7);
  EXPECT_TRUE(pass(9, false).empty());
  const auto deaths = pass(1, false);
  ASSERT_EQ(deaths.size(), 1u);
  EXPECT_EQ(deaths[0].name, "worker");
  EXPECT_FALSE(deaths[0].closed);
  EXPECT_DOUBLE_EQ(deaths[0].silent_s, 1.0);
  EXPECT_TRUE(pass(20, false).empty()) << "it dies only once";
}

TEST_F(MembershipTest, AClosedConnectionIsDeathUnlessItComesBackAtOnce) {
  join(7);
  pass(3, true);
  members_.lost("worker", 7, now_);
  EXPECT_TRUE(pass(1, false).empty());
  const auto deaths = pass(1, false);
  ASSERT_EQ(deaths.size(), 1u);
  EXPECT_TRUE(deaths[0].closed);
}

TEST_F(MembershipTest, NobodyIsBlamedForTheTimeInWhichThisNodeWasHeldUp) {  // F22
  join(7);
  pass(3, true);
  // This process is stopped for 3 s: everybody was silent, as far as it could hear.
  now_ += milliseconds(3000);
  EXPECT_TRUE(members_.tick(now_).empty());
  EXPECT_TRUE(pass(8, false).empty());
  EXPECT_EQ(pass(2, false).size(), 1u) << "but silence after that counts";
}

TEST_F(MembershipTest, AConnectionThatClosedWhileThisNodeWasHeldUpGetsItsTimeToComeBack) {
  join(7);
  pass(3, true);
  members_.lost("worker", 7, now_);
  now_ += milliseconds(2000);
  EXPECT_TRUE(members_.tick(now_).empty());
  EXPECT_EQ(join(7, 1), Verdict::kAgain);
  EXPECT_TRUE(pass(20, true).empty());
}

TEST_F(MembershipTest, APeriodThatIsALittleLateChangesNothing) {
  join(7);
  int deaths = 0, beats = 0;
  for (; deaths == 0 && beats < 20; ++beats) {
    now_ += milliseconds(180);
    deaths += static_cast<int>(members_.tick(now_).size());
  }
  EXPECT_EQ(beats, 6) << "1.08 s of silence";
}

TEST_F(MembershipTest, PatienceFollowsTheDelayThatWasMeasured) {  // F22
  join(7);
  pass(10, true);
  // The machine is busy: for 10 s heartbeats come late, but never by as much as a second.
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(pass(8, false).empty());
    EXPECT_TRUE(pass(1, true).empty());
  }
  EXPECT_TRUE(pass(15, false).empty()) << "a second, and some more: they were late by 0.8 s before";
  EXPECT_EQ(pass(15, false).size(), 1u) << "but not for ever";
}

TEST_F(MembershipTest, PatienceIsWhatItWasAWhileAfterTheDelays) {
  join(7);
  pass(9, false);
  pass(600, true);
  EXPECT_TRUE(pass(9, false).empty());
  EXPECT_EQ(pass(2, false).size(), 1u);
}

TEST_F(MembershipTest, PatienceGrowsWithWhatTheNodeSaysOfItsOwnTimers) {
  join(7);
  members_.heard("worker", now_, 0, milliseconds(700));
  EXPECT_TRUE(pass(20, false).empty());
  EXPECT_EQ(pass(5, false).size(), 1u);
}

TEST_F(MembershipTest, ANodeThatClaimsToBeLateForEverIsDeadAtSomeTime) {
  join(7);
  members_.heard("worker", now_, 0, std::chrono::hours(1));
  EXPECT_EQ(pass(120, false).size(), 1u);
}

TEST_F(MembershipTest, AClosedConnectionOfALateNodeMayComeBackLater) {
  join(7);
  members_.heard("worker", now_, 0, milliseconds(500));
  members_.lost("worker", 7, now_);
  EXPECT_TRUE(pass(5, false).empty());
  EXPECT_EQ(pass(3, false).size(), 1u);
}

TEST_F(MembershipTest, ManyNodesAreHeardOfLessOftenEach) {
  for (int i = 0; i < 20; ++i) members_.join("n" + std::to_string(i), 1, 0, now_);
  EXPECT_EQ(members_.heartbeat(), milliseconds(100));
  EXPECT_EQ(members_.dead_after(), milliseconds(1000));
  for (int i = 20; i < 256; ++i) members_.join("n" + std::to_string(i), 1, 0, now_);
  EXPECT_EQ(members_.up_count(), 256u);
  EXPECT_EQ(members_.heartbeat(), milliseconds(1280));
  EXPECT_EQ(members_.dead_after(), milliseconds(6400));
  now_ += milliseconds(100);
  members_.tick(now_);
  for (int i = 0; i < 236; ++i) members_.left("n" + std::to_string(i));
  EXPECT_EQ(members_.heartbeat(), milliseconds(100)) << "and again more often when they have gone";
  EXPECT_EQ(members_.up_count(), 20u);
}

TEST_F(MembershipTest, WhoIsNotUpIsNotHeard) {
  members_.heard("stranger", now_);
  members_.lost("stranger", 7, now_);
  members_.left("stranger");
  EXPECT_EQ(members_.find("stranger"), nullptr);
  join(7);
  pass(20, false);
  members_.heard("worker", now_);
  EXPECT_FALSE(members_.up("worker"));
}

}  // namespace
}  // namespace troupe::actors
