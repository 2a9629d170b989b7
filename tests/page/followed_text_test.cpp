#include <fstream>

#include <troupe/page/followed_text.hpp>

#include <troupe/tests/apps/test_directory.hpp>

namespace troupe::page {
namespace {

class FollowedTextTest : public apps::TestDirectory {
 protected:
  std::filesystem::path file() const { return path() / "log.txt"; }
  void append(const std::string& text) const { std::ofstream(file(), std::ios::app) << text; }
};

TEST_F(FollowedTextTest, TakesWholeLinesAndKeepsTheNewest) {
  FollowedText log(file(), 3);
  log.poll().value();
  append("one\ntwo\nthr");
  log.poll().value();
  EXPECT_EQ(log.lines(), (std::deque<std::string>{"one", "two"}));
  append("ee\nfour\n");
  log.poll().value();
  EXPECT_EQ(log.lines(), (std::deque<std::string>{"two", "three", "four"}));
  EXPECT_EQ(log.before(), 1U);
}

TEST_F(FollowedTextTest, OfALongFileOnlyTheEndIsRead) {
  for (int i = 0; i < 40'000; ++i) append("line of text " + std::to_string(i) + "\n");
  FollowedText log(file(), 100'000);
  log.poll().value();
  EXPECT_LE(log.lines().size(), 20'000U);
  EXPECT_EQ(log.lines().back(), "line of text 39999");
  EXPECT_TRUE(log.lines().front().starts_with("line of text "));
}

TEST_F(FollowedTextTest, WhatCouldMoveACursorIsMadePrintable) {
  append("\x1b[2Jhello\n");
  FollowedText log(file(), 3);
  log.poll().value();
  EXPECT_EQ(log.lines().front(), "\\x1b[2Jhello");
}

}  // namespace
}  // namespace troupe::page
