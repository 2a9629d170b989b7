// What checkpoints and the journal of a replay role know of each other: which rows stay, and what a run that goes on
// has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <troupe/tests/actors/replay_journal_fixture.hpp>

namespace troupe::actors {
namespace {

TEST_F(ReplayJournalTest, ARunThatResumesHasTheCheckpointsRowsAndForgetsLaterOnes) {
  start(options("relaxed"));
  for (std::uint64_t i = 0; i < 3; ++i) send(0, i);
  run();
  const RoleState cut = role->save().value();
  EXPECT_EQ(cut.counter("rows_elsewhere").value(), 1);
  for (std::uint64_t i = 3; i < 6; ++i) send(0, i);
  run();
  kill();

  start(options("relaxed"), true);
  ASSERT_TRUE(role->restore(cut).ok());
  EXPECT_EQ(reported("items"), 9);
  send(0, 3);  // the producer, too, went back to the checkpoint
  run();
  EXPECT_EQ(reported("duplicates"), 0);
  EXPECT_EQ(reported("items"), 12);
  kill();

  // Killed after that, it has the rows since the checkpoint again.
  start(options("relaxed"));
  ASSERT_TRUE(role->restore(cut).ok());
  EXPECT_EQ(values(), values_of({{0, 0}, {0, 1}, {0, 2}, {0, 3}}));
}

TEST_F(ReplayJournalTest, AResumedReplaySamplesBitForBitAsTheFirstOneDid) {
  auto sampled = [this] {
    context.out("batches").sent.clear();
    context.out("batches").room = 3;
    run();
    std::vector<float> all;
    for (const Frame& frame : context.out("batches").sent) {
      const auto batch = messages::read_batch(frame).value();
      const auto column = batch.columns().as<float>(0);
      all.insert(all.end(), column.begin(), column.end());
    }
    return all;
  };
  start(options("relaxed"));
  for (std::uint64_t i = 0; i < 5; ++i) send(0, i);
  (void)sampled();
  const RoleState cut = role->save().value();
  const auto expected = sampled();
  ASSERT_EQ(expected.size(), 24u);
  kill();
  start(options("relaxed"), true);
  ASSERT_TRUE(role->restore(cut).ok());
  EXPECT_EQ(sampled(), expected);
}

TEST_F(ReplayJournalTest, AReplayThatAloneWasKilledHasMoreThanTheLastCheckpoint) {
  start(options("relaxed"));
  send(0, 0);
  run();
  const RoleState cut = role->save().value();
  send(0, 1);
  run();
  kill();
  start(options("relaxed"));
  ASSERT_TRUE(role->restore(cut).ok());
  EXPECT_EQ(values(), values_of({{0, 0}, {0, 1}}));
}

TEST_F(ReplayJournalTest, ItHasThePrioritiesOfTheLastCheckpoint) {
  ReplayActorOptions prioritised = options("relaxed");
  prioritised.table.sampler = {replay::SelectorKind::kPrioritized, 1.0};
  start(prioritised);
  send(0, 0);
  run();
  context.in("priorities")
      .frames.push_back(
          messages::make_priorities(context.pool(), {.keys = {0, 1, 2}, .priorities = {0, 1, 0}}).value());
  run();
  const RoleState cut = role->save().value();
  kill();
  start(prioritised);
  ASSERT_TRUE(role->restore(cut).ok());
  context.out("batches").room = 1;
  run();
  ASSERT_EQ(context.out("batches").sent.size(), 1u);
  const auto batch = messages::read_batch(context.out("batches").sent[0]).value();
  EXPECT_THAT(batch.columns().as<float>(0), ::testing::Each(value(0, 0, 1)));
}

TEST_F(ReplayJournalTest, ACheckpointMovesBetweenReplaysWithAndWithoutJournal) {
  const auto expected = values_of({{0, 0}, {0, 1}, {0, 2}});
  start(options("off"));
  for (std::uint64_t i = 0; i < 3; ++i) send(0, i);
  run();
  const RoleState whole = role->save().value();
  EXPECT_FALSE(fs::exists(root)) << "off leaves nothing on disk";
  kill();

  start(options("relaxed"), true);
  ASSERT_TRUE(role->restore(whole).ok());
  EXPECT_EQ(values(), expected);
  run();
  kill();
  start(options("durable"));
  EXPECT_EQ(values(), expected) << "the rows of the checkpoint are in the journal";
  const RoleState elsewhere = role->save().value();
  kill();

  start(options("off"), true);
  ASSERT_TRUE(role->restore(elsewhere).ok());
  EXPECT_EQ(values(), expected);
  kill();

  // Another node, which sees the first one's folder, and one that does not.
  fs::rename(root / "replay", root / "moved");
  start(options("relaxed"), true);
  Lines lines;
  ASSERT_TRUE(role->restore(elsewhere).ok());
  EXPECT_THAT(lines.end(),
              HasSubstr("TRP-W302 replay: 9 items of the checkpoint are not in the journal any more; 0 are"));
  EXPECT_EQ(reported("items"), 0);
  fs::remove_all(root / "replay");
  fs::rename(root / "moved", root / "replay");
  auto other = ReplayActor::make(options("relaxed"), {"replay", 0, 1, 9, 5, root / "other", true}).value();
  ASSERT_TRUE(other->restore(elsewhere).ok());
  role = std::move(other);
  EXPECT_EQ(values(), expected);
}

TEST_F(ReplayJournalTest, ARunThatResumesWithoutStateOfReplayBeginsAnew) {
  start(options("relaxed"));
  send(0, 0);
  run();
  kill();
  start(options("relaxed"), true);
  run();
  EXPECT_EQ(reported("items"), 0);
  send(0, 0);
  run();
  EXPECT_EQ(values(), values_of({{0, 0}}));
}

/// A table of 300 rows whose journal has segments of a few hundred.
class ReplayCheckpointRows : public ReplayJournalTest {
 protected:
  static ReplayActorOptions small() {
    ReplayActorOptions made = options("durable");  // only what is synced is let go of
    made.table.max_items = 300;
    made.journal.segment_bytes = 4096;
    return made;
  }
  void insert(int trajectories) {
    for (int i = 0; i < trajectories; ++i) {
      send(0, sequence++);
      run();
    }
  }
  /// How many of the checkpoint's 300 items a run that goes on from it has. It forgets what came later.
  double resumed_items(const RoleState& cut) {
    kill();
    start(small(), true);
    EXPECT_TRUE(role->restore(cut).ok());
    return reported("items");
  }
  std::uint64_t sequence = 0;
};

TEST_F(ReplayCheckpointRows, StayWhenReplayAloneIsRestarted) {
  start(small());
  insert(150);
  const RoleState cut = role->save().value();
  dynamic_cast<CutListener&>(*role).committed();
  insert(40);
  kill();
  start(small());
  ASSERT_TRUE(role->restore(cut).ok());
  insert(50);  // 270 rows since: without the checkpoint, all but one or two of its rows would be let go of
  EXPECT_EQ(resumed_items(cut), 300);
}

TEST_F(ReplayCheckpointRows, StayWhenTheRunIsResumedAndTheNextCheckpointFails) {
  start(small());
  insert(150);
  const RoleState cut = role->save().value();
  dynamic_cast<CutListener&>(*role).committed();
  insert(10);
  EXPECT_EQ(resumed_items(cut), 300);
  insert(50);
  (void)role->save().value();  // which is not committed
  insert(40);
  EXPECT_EQ(resumed_items(cut), 300);
}

TEST_F(ReplayCheckpointRows, StayHoweverManyLaterOnesFail) {
  start(small());
  insert(150);
  const RoleState cut = role->save().value();
  dynamic_cast<CutListener&>(*role).committed();
  for (int i = 0; i < 9; ++i) {
    insert(10);
    (void)role->save().value();
  }
  EXPECT_EQ(resumed_items(cut), 300);
}

TEST_F(ReplayCheckpointRows, GoWhenThreeLaterOnesAreCommitted) {
  start(small());
  insert(150);
  const RoleState cut = role->save().value();
  dynamic_cast<CutListener&>(*role).committed();
  for (int i = 0; i < 4; ++i) {
    insert(100);
    (void)role->save().value();
    dynamic_cast<CutListener&>(*role).committed();
  }
  insert(100);
  EXPECT_LT(reported("journal_bytes"), 48 * 700 + 2 * 4096);
  EXPECT_EQ(resumed_items(cut), 0);
}

TEST_F(ReplayJournalTest, PlacesThatAreNoneAreRefused) {
  start(options("relaxed"));
  send(0, 0);
  run();
  RoleState cut = role->save().value();
  kill();
  cut.chunks[1].pop_back();
  start(options("relaxed"), true);
  EXPECT_EQ(role->restore(cut).error().code, Code::kCorrupt);
}

}  // namespace
}  // namespace troupe::actors
