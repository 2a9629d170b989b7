// The replay role with its journal, step by step: what a kill, a full disk and a torn file leave of the inserts, and
// which credits go back when.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include <troupe/messages/reports.hpp>
#include <troupe/tests/actors/replay_journal_fixture.hpp>

namespace troupe::actors {
namespace {

// ---- kills ----

TEST_F(ReplayJournalTest, AKilledReplayComesBackWithEveryInsertAndDropsWhatIsSentAgain) {
  for (const char* durability : {"relaxed", "durable"}) {
    wipe();
    start(options(durability));
    for (std::uint64_t i = 0; i < 5; ++i) send(0, i);
    send(1, 0);
    run();
    EXPECT_EQ(context.in("trajectories").held, 0) << "what is safe is given back";
    kill();

    start(options(durability));
    EXPECT_EQ(reported("items"), 18) << durability;
    EXPECT_EQ(reported("inserts"), 18) << "totals go on";
    // Their credits were lost on the way: the producers send them again, and then new ones.
    send(0, 4);
    send(1, 0);
    send(1, 1);
    run();
    EXPECT_EQ(context.in("trajectories").held, 0) << "duplicates are given back, too";
    EXPECT_EQ(reported("duplicates"), 2);
    EXPECT_EQ(values(), values_of({{0, 0}, {0, 1}, {0, 2}, {0, 3}, {0, 4}, {1, 0}, {1, 1}}));
  }
}

TEST_F(ReplayJournalTest, ANewIncarnationOfAProducerCountsFromZeroAgain) {
  start(options("relaxed"));
  send(0, 0);
  send(0, 1);
  run();
  kill();
  Lines lines;
  start(options("relaxed"));
  send(0, 0, 1);
  send(0, 1, 0);  // of the earlier one, late
  run();
  const std::string said = lines.end();
  EXPECT_THAT(said, HasSubstr("TRP-I301 replay: 6 items recovered in "));
  EXPECT_THAT(said, HasSubstr("TRP-S707 replay: trajectory 1 of producer 0 is there already: dropped (1 so far)"));
  EXPECT_EQ(reported("items"), 9);
  EXPECT_EQ(reported("duplicates"), 1);
}

TEST_F(ReplayJournalTest, ATrajectoryThatTheLimiterAdmittedInPartComesBackWhole) {
  ReplayActorOptions narrow = options("relaxed");
  narrow.table.limiter = replay::sample_to_insert_ratio(8, 1, 16).value();
  start(narrow);
  for (std::uint64_t i = 0; i < 3; ++i) send(0, i);
  run();
  EXPECT_LT(reported("items"), 9);
  const auto waiting = static_cast<double>(context.in("trajectories").frames.size());
  kill();
  start(narrow);
  EXPECT_EQ(reported("items"), kRows * (3 - waiting)) << "with all rows of what was taken";
}

TEST_F(ReplayJournalTest, RecoversKillAfterKill) {
  for (std::uint64_t life = 0; life < 20; ++life) {
    start(options(life % 2 == 0 ? "relaxed" : "durable"));
    ASSERT_EQ(reported("items"), static_cast<double>(kRows * life));
    if (life > 0) send(0, life - 1);
    send(0, life);
    run();
    kill();
  }
}

TEST_F(ReplayJournalTest, MoreThanTheTableHoldsComesBackAsItsNewestItems) {
  ReplayActorOptions small = options("relaxed");
  small.table.max_items = 10;
  start(small);
  for (std::uint64_t i = 0; i < 50; ++i) send(0, i);
  run();
  kill();
  start(small);
  EXPECT_EQ(reported("items"), 10);
  EXPECT_EQ(reported("inserts"), 150);
}

// ---- a disk that fails ----

/// Writes of this process fail beyond the first `bytes` of a file while this lives, after short ones; as root, too.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    before_handler_ = std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, before_handler_);
  }

 private:
  rlimit before_{};
  void (*before_handler_)(int) = nullptr;
};

TEST_F(ReplayJournalTest, OnAFullDiskADurableReplayHoldsTheCreditsUntilThereIsRoom) {
  start(options("durable"));
  send(0, 0);
  run();
  Lines lines;
  {
    const FullDisk full(300);
    for (std::uint64_t i = 1; i < 5; ++i) send(0, i);
    run();
    EXPECT_GT(context.in("trajectories").held, 0);
    EXPECT_EQ(reported("journal_failures"), 1);
    EXPECT_THAT(role->waiting_for(), HasSubstr("journal: write"));
    EXPECT_THAT(role->waiting_for(), HasSubstr("File too large"));
    EXPECT_EQ(reported("items"), 15) << "training goes on with them";
    const RoleState state = role->save().value();
    EXPECT_EQ(state.counter("rows_elsewhere").value(), 0) << "a checkpoint holds the rows itself";
    context.manual_clock.advance(milliseconds(500));
    run();
    EXPECT_EQ(reported("journal_failures"), 1) << "tried again once a second";
    context.manual_clock.advance(milliseconds(600));
    run();
    EXPECT_EQ(reported("journal_failures"), 2);
    EXPECT_GT(context.in("trajectories").held, 0);
  }
  context.manual_clock.advance(std::chrono::seconds(1));
  run();
  EXPECT_EQ(context.in("trajectories").held, 0);
  EXPECT_EQ(role->waiting_for(), "");
  const std::string said = lines.end();
  EXPECT_EQ(count(said, "TRP-E601 replay: journal failed: write "), 1) << said;
  EXPECT_EQ(count(said, "inserts since row 3 are not acknowledged until it works again"), 1) << said;
  EXPECT_EQ(count(said, "replay: journal works again after "), 1) << said;
  kill();
  start(options("durable"));
  EXPECT_EQ(reported("items"), 15);
}

TEST_F(ReplayJournalTest, WhatADurableReplayDidNotAcknowledgeIsSentAgainAfterAKill) {
  start(options("durable"));
  send(0, 0);
  run();
  const FullDisk full(300);
  for (std::uint64_t i = 1; i < 5; ++i) send(0, i);
  run();
  const auto held = static_cast<std::uint64_t>(context.in("trajectories").held);
  ASSERT_GT(held, 0u);
  kill();
  start(options("durable"));
  for (std::uint64_t i = 5 - held; i < 5; ++i) send(0, i);
  run();
  EXPECT_EQ(values(), values_of({{0, 0}, {0, 1}, {0, 2}, {0, 3}, {0, 4}}));
}

TEST_F(ReplayJournalTest, OnAFullDiskARelaxedReplayGoesOnAndCatchesUp) {
  start(options("relaxed"));
  send(0, 0);
  run();
  {
    const FullDisk full(300);
    for (std::uint64_t i = 1; i < 5; ++i) send(0, i);
    run();
    EXPECT_EQ(context.in("trajectories").held, 0);
    EXPECT_GE(reported("journal_failures"), 1);
  }
  context.manual_clock.advance(std::chrono::seconds(2));
  run();
  kill();
  start(options("relaxed"));
  EXPECT_EQ(values(), values_of({{0, 0}, {0, 1}, {0, 2}, {0, 3}, {0, 4}}));
}

TEST_F(ReplayJournalTest, ATornTailIsCutOffAndWhatItHeldIsSentAgain) {
  start(options("relaxed"));
  for (std::uint64_t i = 0; i < 3; ++i) send(0, i);
  run();
  kill();
  // The last write of the process stopped in the middle.
  fs::path newest;
  for (const auto& file : fs::directory_iterator(root / "replay" / "journal")) {
    if (file.path().filename().string().starts_with("journal-")) newest = std::max(newest, file.path());
  }
  fs::resize_file(newest, fs::file_size(newest) - 5);
  Lines lines;
  start(options("relaxed"));
  EXPECT_THAT(lines.end(),
              ::testing::ContainsRegex("TRP-I611 replay: journal .*: [0-9]+ bytes of an unfinished write"));
  EXPECT_EQ(reported("items"), 6);
  send(0, 2);
  run();
  EXPECT_EQ(reported("duplicates"), 0);
  EXPECT_EQ(values(), values_of({{0, 0}, {0, 1}, {0, 2}}));
}

TEST_F(ReplayJournalTest, DamageBeforeTheTailIsRefusedNamingFileAndPlace) {
  start(options("durable"));
  for (std::uint64_t i = 0; i < 3; ++i) send(0, i);
  run();
  kill();
  for (const auto& file : fs::directory_iterator(root / "replay" / "journal")) {
    if (!file.path().filename().string().starts_with("journal-")) continue;
    std::fstream stream(file.path(), std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(static_cast<std::streamoff>(fs::file_size(file.path())) - 10);
    stream.put('\x55');
  }
  const auto made = make(options("durable"));
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, Code::kCorrupt);
  EXPECT_THAT(made.error().message, HasSubstr("TRP-E610 replay: journal " + (root / "replay" / "journal").string()));
  EXPECT_THAT(made.error().message, HasSubstr("refused: to go on without its rows, remove "));
  fs::remove_all(root / "replay" / "journal");
  start(options("durable"));
  EXPECT_EQ(reported("items"), 0);
}

// ---- when there is a journal ----

TEST_F(ReplayJournalTest, AutomaticallyThereIsAJournalWhereInstancesHaveFolders) {
  start(options("auto"));
  EXPECT_TRUE(fs::exists(root / "replay" / "journal"));
  wipe();
  auto alone = ReplayActor::make(options("auto"), {"replay", 0, 1, 0, 5});
  ASSERT_TRUE(alone.ok()) << alone.error().message;
  EXPECT_FALSE(fs::exists(root));
}

TEST_F(ReplayJournalTest, AJournalThatCannotBeIsRefused) {
  const auto refused = [](const ReplayActorOptions& options, const fs::path& directory) {
    return ReplayActor::make(options, {"replay", 0, 1, 0, 5, directory}).error().message;
  };
  EXPECT_THAT(refused(options("durable"), ""), HasSubstr("within one process replay has no folder of its own"));
  EXPECT_THAT(refused(options("sometimes"), root), HasSubstr("\"sometimes\", expected auto, off, relaxed or durable"));
  ReplayActorOptions unordered = options("relaxed");
  unordered.table.remover = {replay::SelectorKind::kUniform, 1};
  EXPECT_THAT(refused(unordered, root), HasSubstr("expected fifo"));
}

// ---- what comes from producers ----

TEST_F(ReplayJournalTest, ATrajectoryOfAnotherKindIsDroppedAndItsCreditGivenBack) {
  const Signature other{{"value", DType::kF32, {2}}};
  for (const char* durability : {"off", "relaxed"}) {
    start(options(durability));
    auto builder =
        messages::TrajectoryBuilder::make(context.pool(), {std::make_shared<const Signature>(other), 1, false}).value();
    context.in("trajectories").frames.push_back(std::move(builder).finish({}, 1));
    send(0, 0);
    context.refused.clear();
    run();
    ASSERT_EQ(context.refused.size(), 1u);
    EXPECT_THAT(context.refused[0], HasSubstr("trajectories: trajectory 0 of producer 0: "));
    EXPECT_EQ(reported("rejected"), 1);
    EXPECT_EQ(reported("items"), 3);
    EXPECT_EQ(context.in("trajectories").held, 0);
    wipe();
  }
}

TEST_F(ReplayJournalTest, ATrajectoryThatIsTooLongForTheJournalIsRefusedAndNotSentAgainForEver) {
  // A row of 1 MiB: 130 of them are a legal frame, and more than a record of the journal may hold.
  const Signature wide{{"value", DType::kF32, {1 << 18}}};
  ReplayActorOptions wide_options = options("relaxed");
  wide_options.table.signature = wide;
  wide_options.table.max_items = 200;
  start(wide_options);
  for (const std::int64_t rows : {130, 1}) {
    auto builder =
        messages::TrajectoryBuilder::make(context.pool(), {std::make_shared<const Signature>(wide), rows, false});
    ASSERT_TRUE(builder.ok()) << builder.error().message;
    std::ranges::fill(builder->rows().columns[0], std::byte{0});
    context.in("trajectories").frames.push_back(std::move(*builder).finish({}, rows));
  }
  run();
  ASSERT_EQ(context.refused.size(), 1u);
  EXPECT_THAT(context.refused[0], HasSubstr("journal: a record of "));
  EXPECT_EQ(reported("rejected"), 1);
  EXPECT_EQ(reported("items"), 1) << "the role goes on with what comes next";
  EXPECT_EQ(context.in("trajectories").held, 0);
}

TEST_F(ReplayJournalTest, HasNoRecordOfItemsThatAreDeletedSoTheyAreKept) {
  start(options("relaxed"));
  send(0, 0);
  run();
  const auto all = values();
  for (const messages::PriorityUpdate& update : {messages::PriorityUpdate{.keys = {}, .priorities = {}, .deletes = {2}},
                                                 {.keys = {}, .priorities = {}, .reset = true}}) {
    context.in("priorities").frames.push_back(messages::make_priorities(context.pool(), update).value());
    run();
    EXPECT_THAT(context.refused.back(), HasSubstr("(replay.durability = \"off\")"));
  }
  EXPECT_EQ(context.refused.size(), 2U);
  EXPECT_EQ(values(), all);
}

}  // namespace
}  // namespace troupe::actors
