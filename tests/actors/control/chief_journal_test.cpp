#include <troupe/actors/control/chief_journal.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace troupe::actors {
namespace {

using ::testing::HasSubstr;

class ChiefJournalTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove(file_); }
  void TearDown() override { std::filesystem::remove(file_); }
  void write(const std::string& text) { std::ofstream(file_) << text; }

  const std::filesystem::path file_ =
      std::filesystem::path(::testing::TempDir()) /
      (std::string("chief_journal_") + ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".json");
};

TEST_F(ChiefJournalTest, WhatIsSavedIsLoaded) {
  ChiefJournal journal;
  journal.term = 3;
  journal.last_cut = 7;
  journal.cuts_begun = 9;
  journal.nodes = {{"chief", 3}, {"worker-1", 12}};
  journal.joined = {{"actor-3", "extra"}, {"actor-4", "extra"}};
  journal.over = "complete";
  journal.instances = {{"learner", 0}, {"actor-3", 4}};
  ASSERT_TRUE(save_journal(file_, journal).ok());
  journal.term = 4;
  ASSERT_TRUE(save_journal(file_, journal).ok()) << "it replaces the one before";
  const ChiefJournal loaded = load_journal(file_).value();
  EXPECT_EQ(loaded.term, 4u);
  EXPECT_EQ(loaded.last_cut, 7u);
  EXPECT_EQ(loaded.cuts_begun, 9u);
  EXPECT_EQ(loaded.nodes, journal.nodes);
  EXPECT_EQ(loaded.instances, journal.instances);
  EXPECT_EQ(loaded.joined, journal.joined);
  EXPECT_EQ(loaded.over, journal.over);
}

TEST_F(ChiefJournalTest, WithoutAFileItIsEmpty) {
  const ChiefJournal loaded = load_journal(file_).value();
  EXPECT_EQ(loaded.term, 0u);
  EXPECT_TRUE(loaded.nodes.empty());
}

TEST_F(ChiefJournalTest, EveryTruncationAndEveryFlippedBitIsDetectedAndNamesTheFile) {
  ChiefJournal journal;
  journal.term = 12;
  journal.nodes = {{"chief", 3}};
  ASSERT_TRUE(save_journal(file_, journal).ok());
  std::ifstream stream(file_);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  const auto expect_corrupt = [&](const std::string& bytes) {
    write(bytes);
    const auto loaded = load_journal(file_);
    ASSERT_FALSE(loaded.ok()) << bytes;
    EXPECT_EQ(loaded.error().code, Code::kCorrupt);
    EXPECT_THAT(loaded.error().message, HasSubstr(file_.string()));
  };
  for (std::size_t length = 0; length + 2 < text.size(); ++length) expect_corrupt(text.substr(0, length));
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (std::isspace(static_cast<unsigned char>(text[i])) != 0) continue;  // another blank is the same journal
    for (const int bit : {0, 2, 6}) {
      std::string flipped = text;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      expect_corrupt(flipped);
    }
  }
}

TEST_F(ChiefJournalTest, NumbersAndNestingThatNoJournalHasAreRefused) {
  ChiefJournal journal;
  journal.term = 12;
  journal.nodes = {{"chief", 3}};
  ASSERT_TRUE(save_journal(file_, journal).ok());
  std::ifstream stream(file_);
  const std::string good{std::istreambuf_iterator<char>(stream), {}};
  const auto refused = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    write(text);
    const auto loaded = load_journal(file_);
    return !loaded.ok() && loaded.error().code == Code::kCorrupt;
  };
  EXPECT_FALSE(refused("\"term\": 12", "\"term\":12"));
  for (const char* number : {"12.0", "-12", "1e300", "18446744073709551628"}) {  // the last is 12 modulo 2^64
    EXPECT_TRUE(refused("\"term\": 12", std::string("\"term\": ") + number)) << number;
  }
  EXPECT_TRUE(refused("\"chief\": 3", "\"chief\": 4294967299")) << "3 modulo 2^32";
  // Such a version was quoted, and the checksum of such a journal taken, by recursion.
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  EXPECT_TRUE(refused("\"version\": 1", "\"version\": " + deep));
  EXPECT_TRUE(refused("\"term\": 12", "\"term\": " + deep));
}

TEST_F(ChiefJournalTest, AnotherVersionOrOtherJsonIsRefused) {
  for (const char* text : {"null", "[]", "{}", R"({"version": 2, "crc32c": 0, "journal": {}})",
                           R"({"version": 1, "crc32c": "0", "journal": {}})", R"({"version": 1, "crc32c": 0})"}) {
    write(text);
    const auto loaded = load_journal(file_);
    ASSERT_FALSE(loaded.ok()) << text;
    EXPECT_EQ(loaded.error().code, Code::kCorrupt);
  }
}

TEST_F(ChiefJournalTest, AFolderThatDoesNotExistIsAnError) {
  EXPECT_EQ(save_journal("/nonexistent/folder/journal.json", {}).error().code, Code::kIo);
}

}  // namespace
}  // namespace troupe::actors
