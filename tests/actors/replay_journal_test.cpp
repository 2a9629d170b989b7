// The replay role with its journal, step by step: what a kill, a full disk, a torn file and a checkpoint leave of the
// inserts, and which credits go back when.
#include <troupe/actors/replay_journal.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include <troupe/actors/replay_actor.hpp>
#include <troupe/core/log.hpp>
#include <troupe/messages/batch.hpp>
#include <troupe/messages/reports.hpp>
#include <troupe/tests/actors/fake_context.hpp>

namespace troupe::actors {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using testing::FakeContext;
using ::testing::HasSubstr;

const Signature kSignature{{"value", DType::kF32, {}}};
constexpr std::int64_t kRows = 3;  // of a trajectory

/// What is logged while it lives.
class Lines {
 public:
  Lines() {
    log::set_level(log::Level::kInfo);
    ::testing::internal::CaptureStderr();
  }
  ~Lines() {
    if (!ended_) (void)end();
  }
  std::string end() {
    ended_ = true;
    log::set_level(log::Level::kOff);
    return ::testing::internal::GetCapturedStderr();
  }

 private:
  bool ended_ = false;
};

std::int64_t count(const std::string& text, const std::string& part) {
  std::int64_t times = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++times;
  return times;
}

class ReplayJournalTest : public ::testing::Test {
 protected:
  ReplayJournalTest() : root(fs::path(::testing::TempDir()) / ("replay_journal_test_" + std::to_string(getpid()))) {
    fs::remove_all(root);
    log::set_level(log::Level::kOff);
    context.out("batches").room = 0;
  }
  ~ReplayJournalTest() override {
    wipe();
    log::set_level(log::Level::kInfo);
  }

  static ReplayActorOptions options(const std::string& durability) {
    ReplayActorOptions options;
    options.table.signature = kSignature;
    options.table.max_items = 1000;
    options.table.limiter = replay::min_size(1);
    options.batch = 8;
    options.journal = {.durability = durability, .background = false};
    return options;
  }
  Result<std::unique_ptr<Role>> make(const ReplayActorOptions& options, bool resumes = false) {
    return ReplayActor::make(options, {"replay", 0, 1, incarnation++, 5, root / "replay", resumes});
  }
  void start(const ReplayActorOptions& options, bool resumes = false) {
    auto made = make(options, resumes);
    ASSERT_TRUE(made.ok()) << made.error().message;
    role = std::move(made).value();
  }
  void wipe() {
    role.reset();
    killed.clear();
    fs::remove_all(root);
  }
  /// As kill -9 does: nothing of it is closed, written or synced any more. What it held comes again.
  void kill() {
    killed.push_back(std::move(role));
    context.in("trajectories").held = 0;
  }

  Frame trajectory(std::uint32_t producer, std::uint64_t sequence, std::uint32_t its_incarnation = 0,
                   std::int64_t rows = kRows) {
    auto builder =
        messages::TrajectoryBuilder::make(context.pool(), {std::make_shared<const Signature>(kSignature), rows, false})
            .value();
    for (std::int64_t i = 0; i < rows; ++i) {
      builder.rows().as<float>(0)[static_cast<std::size_t>(i)] = value(producer, sequence, i);
    }
    return std::move(builder).finish({.producer = producer, .incarnation = its_incarnation, .sequence = sequence},
                                     rows);
  }
  static float value(std::uint32_t producer, std::uint64_t sequence, std::int64_t row) {
    return static_cast<float>(producer * 10'000 + sequence * 10 + static_cast<std::uint64_t>(row));
  }
  void send(std::uint32_t producer, std::uint64_t sequence, std::uint32_t its_incarnation = 0) {
    context.in("trajectories").frames.push_back(trajectory(producer, sequence, its_incarnation));
  }
  void run() {
    for (int i = 0; i < 100; ++i) {
      const auto progress = role->step(context);
      ASSERT_TRUE(progress.ok()) << progress.error().message;
      if (*progress == Progress::kIdle) return;
    }
    FAIL() << "never idle";
  }
  double reported(const std::string& name) const {
    Report report;
    role->report(report);
    for (const auto* list : {&report.counters, &report.gauges, &report.sums}) {
      for (const Scalar& scalar : *list) {
        if (scalar.name == name) return scalar.value;
      }
    }
    ADD_FAILURE() << "no " << name;
    return 0;
  }
  /// All rows of the role's table, oldest first.
  std::vector<float> values() {
    // The state of a role without journal holds them; a checkpoint of this one says where they are.
    const ReplayActorOptions plain = options("off");
    auto reader = ReplayActor::make(plain, {"replay", 0, 1, 0, 5}).value();
    const Status restored = reader->restore(role->save().value());
    EXPECT_TRUE(restored.ok()) << restored.error().message;
    auto table = replay::Table::make(plain.table).value();
    const RoleState state = reader->save().value();
    EXPECT_TRUE(table->restore(std::span(state.chunks).subspan(1)).ok());
    const replay::TableInfo info = table->info();
    BatchBuffer rows(kSignature, info.items);
    std::vector<double> priorities(static_cast<std::size_t>(info.items));
    if (info.items == 0) return {};
    EXPECT_TRUE(table->read(static_cast<replay::Key>(info.inserts - info.items), rows.mutable_view(), priorities).ok());
    const auto column = rows.view().as<float>(0);
    return {column.begin(), column.end()};
  }
  static std::vector<float> values_of(std::initializer_list<std::pair<std::uint32_t, std::uint64_t>> trajectories) {
    std::vector<float> all;
    for (const auto& [producer, sequence] : trajectories) {
      for (std::int64_t row = 0; row < kRows; ++row) all.push_back(value(producer, sequence, row));
    }
    return all;
  }

  const fs::path root;
  FakeContext context;
  std::unique_ptr<Role> role;
  std::vector<std::unique_ptr<Role>> killed;
  std::int64_t incarnation = 0;
};

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

// ---- checkpoints ----

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

}  // namespace
}  // namespace troupe::actors
