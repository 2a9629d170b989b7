#pragma once
// The replay role with its journal, driven step by step: what the tests of its journal and of its checkpoints share.
#include <troupe/actors/roles/replay_journal.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <troupe/actors/roles/replay_actor.hpp>
#include <troupe/core/log.hpp>
#include <troupe/messages/batch.hpp>
#include <troupe/messages/reports.hpp>
#include <troupe/tests/actors/fake_context.hpp>

namespace troupe::actors {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using testing::FakeContext;
using ::testing::HasSubstr;

inline const Signature kSignature{{"value", DType::kF32, {}}};
inline constexpr std::int64_t kRows = 3;  // of a trajectory

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

inline std::int64_t count(const std::string& text, const std::string& part) {
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

}  // namespace troupe::actors
