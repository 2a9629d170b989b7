// The replay role on trajectories whose stacks are split: what it keeps comes back whole and bit for bit after a kill,
// from a checkpoint with a journal or without, and from a journal of rows that were not split yet.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

#include <troupe/tests/actors/replay_journal_fixture.hpp>

namespace troupe::actors {
namespace {

constexpr std::int64_t kRowsEach = 16;  // of a trajectory
constexpr std::size_t kImageBytes = 64;

Signature stacked(std::int64_t planes) {
  return {{"pixels", DType::kU8, {8, 8, 3}, {planes}},
          {"number", DType::kF32, {}},
          {"next_pixels", DType::kU8, {8, 8, 3}, {planes}}};
}

/// Of the step'th image of a producer.
std::uint8_t pixel(std::uint32_t producer, std::int64_t step, std::size_t place) {
  return static_cast<std::uint8_t>(step * 31 + static_cast<std::int64_t>(place) * 7 + producer * 100);
}

class StackedReplayTest : public ReplayJournalTest {
 protected:
  static ReplayActorOptions stacked_options(const std::string& durability, std::int64_t planes = 3) {
    ReplayActorOptions made = options(durability);
    made.table.signature = stacked(planes);
    return made;
  }
  /// Rows first.. of the producer's one long episode.
  Frame rows_from(std::uint32_t producer, std::uint64_t sequence, std::int64_t first, std::int64_t planes = 3) {
    auto builder = messages::TrajectoryBuilder::make(
                       context.pool(), {std::make_shared<const Signature>(stacked(planes)), kRowsEach, false})
                       .value();
    for (const std::size_t column : {0, 2}) {
      const auto bytes = builder.rows().as<std::uint8_t>(column);
      for (std::size_t i = 0; i < bytes.size(); ++i) {
        const auto row = static_cast<std::int64_t>(i / (3 * kImageBytes));
        bytes[i] = pixel(producer, first + row + static_cast<std::int64_t>(i % 3 + column), i / 3 % kImageBytes);
      }
    }
    for (std::size_t i = 0; i < static_cast<std::size_t>(kRowsEach); ++i) {
      builder.rows().as<float>(1)[i] = static_cast<float>(first) + static_cast<float>(i);
    }
    return std::move(builder).finish({.producer = producer, .sequence = sequence}, kRowsEach);
  }
  void send_rows(std::uint32_t producer, std::uint64_t sequence, std::int64_t planes = 3) {
    context.in("trajectories")
        .frames.push_back(rows_from(producer, sequence, static_cast<std::int64_t>(sequence) * kRowsEach, planes));
  }
  /// The table's rows, of which every byte is what was sent, as numbers.
  std::vector<float> numbers_of(std::uint32_t producer) {
    const ReplayActorOptions plain = stacked_options("off");
    auto reader = ReplayActor::make(plain, {"replay", 0, 1, 0, 5}).value();
    const Status restored = reader->restore(role->save().value());
    EXPECT_TRUE(restored.ok()) << restored.error().message;
    auto table = replay::Table::make(plain.table).value();
    const RoleState state = reader->save().value();
    EXPECT_TRUE(table->restore(std::span(state.chunks).subspan(1)).ok());
    const replay::TableInfo info = table->info();
    BatchBuffer rows(plain.table.signature, info.items);
    std::vector<double> priorities(static_cast<std::size_t>(info.items));
    EXPECT_TRUE(table->read(static_cast<replay::Key>(info.inserts - info.items), rows.mutable_view(), priorities).ok());
    const auto numbers = rows.view().as<float>(1);
    for (const std::size_t column : {0, 2}) {
      const auto bytes = rows.view().as<std::uint8_t>(column);
      for (std::size_t i = 0; i < bytes.size(); ++i) {
        const auto step = static_cast<std::int64_t>(numbers[i / (3 * kImageBytes)]);
        if (bytes[i] == pixel(producer, step + static_cast<std::int64_t>(i % 3 + column), i / 3 % kImageBytes))
          continue;
        ADD_FAILURE() << "row " << i / (3 * kImageBytes) << " of column " << column << " is another";
        return {};
      }
    }
    return {numbers.begin(), numbers.end()};
  }
  static std::vector<float> numbers_to(std::int64_t end) {
    std::vector<float> numbers;
    for (std::int64_t i = 0; i < end; ++i) numbers.push_back(static_cast<float>(i));
    return numbers;
  }
  std::uintmax_t journal_bytes() const {
    std::uintmax_t bytes = 0;
    for (const auto& entry : fs::recursive_directory_iterator(root)) {
      if (entry.is_regular_file()) bytes += entry.file_size();
    }
    return bytes;
  }
};

TEST_F(StackedReplayTest, AKilledReplayComesBackWithEveryImage) {
  for (const char* durability : {"relaxed", "durable"}) {
    wipe();
    start(stacked_options(durability));
    for (std::uint64_t i = 0; i < 6; ++i) send_rows(0, i);
    run();
    EXPECT_EQ(reported("items"), 96);
    // Messages repeat the images at their borders; the table has each once.
    const double bytes = reported("bytes");
    EXPECT_LT(bytes, 96 * (kImageBytes + 80) + 6 * kImageBytes);
    kill();
    EXPECT_LT(journal_bytes(), 96U * row_bytes(stacked(3)) / 3);
    start(stacked_options(durability));
    EXPECT_EQ(reported("bytes"), bytes) << "the same images are shared again";
    send_rows(0, 5);
    send_rows(0, 6);
    run();
    EXPECT_EQ(reported("duplicates"), 1);
    EXPECT_EQ(numbers_of(0), numbers_to(112));
  }
}

TEST_F(StackedReplayTest, ACheckpointHoldsItsImagesOrSaysWhereTheyAre) {
  for (const char* durability : {"off", "relaxed"}) {
    wipe();
    start(stacked_options(durability));
    for (std::uint64_t i = 0; i < 4; ++i) send_rows(2, i);
    run();
    const RoleState state = role->save().value();
    send_rows(2, 4);
    run();
    kill();
    start(stacked_options(durability), true);
    ASSERT_TRUE(role->restore(state).ok());
    EXPECT_EQ(numbers_of(2), numbers_to(64)) << durability;
    if (std::string(durability) == "off") continue;
    // The same rows in a journal of their own, then that one after a kill.
    EXPECT_EQ(numbers_of(2), numbers_to(64));
    kill();
    start(stacked_options(durability));
    EXPECT_EQ(numbers_of(2), numbers_to(64));
  }
}

TEST_F(StackedReplayTest, ATableOfACheckpointBeginsAJournalOfSplitRows) {
  start(stacked_options("off"));
  for (std::uint64_t i = 0; i < 6; ++i) send_rows(1, i);
  run();
  const RoleState state = role->save().value();
  start(stacked_options("relaxed"), true);
  ASSERT_TRUE(role->restore(state).ok());
  run();
  EXPECT_LT(journal_bytes(), 96U * row_bytes(stacked(3)) / 3);
  kill();
  start(stacked_options("relaxed"));
  EXPECT_EQ(numbers_of(1), numbers_to(96));
}

TEST_F(StackedReplayTest, AJournalOfWholeRowsGoesOnWithSplitOnes) {
  start(stacked_options("relaxed", 1));
  for (std::uint64_t i = 0; i < 3; ++i) send_rows(0, i, 1);
  run();
  kill();
  start(stacked_options("relaxed"));
  send_rows(0, 3);
  run();
  kill();
  start(stacked_options("relaxed"));
  EXPECT_EQ(numbers_of(0), numbers_to(64));
}

TEST_F(StackedReplayTest, RowsThatAreSplitOtherwiseAreDroppedWithAReason) {
  start(stacked_options("off"));
  auto builder = messages::TrajectoryBuilder::make(
                     context.pool(), {std::make_shared<const Signature>(Signature{
                                          {"pixels", DType::kU8, {8, 8, 3}, {2, 0}}, stacked(1)[1], stacked(1)[2]}),
                                      1, false})
                     .value();
  for (const auto column : builder.rows().columns) std::ranges::fill(column, std::byte{0});
  context.in("trajectories").frames.push_back(std::move(builder).finish({.sequence = 7}, 1));
  send_rows(0, 0, 1);  // whole rows are as good
  run();
  EXPECT_EQ(reported("rejected"), 1);
  EXPECT_EQ(reported("items"), 16);
  EXPECT_EQ(numbers_of(0), numbers_to(16));
}

}  // namespace
}  // namespace troupe::actors
