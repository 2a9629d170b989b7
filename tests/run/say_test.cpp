#include <troupe/run/say.hpp>

#include <gtest/gtest.h>

namespace troupe::apps {
namespace {

TEST(ShellWord, IsWhatAShellTakesForTheText) {
  EXPECT_EQ(shell_word("runs/a-20231114"), "runs/a-20231114");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("a b"), "'a b'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word("$(rm -r x)"), "'$(rm -r x)'");
  EXPECT_EQ(shell_word("Größe"), "'Größe'");
}

TEST(ShellWord, SaysNothingThatMovesTheCursor) {
  EXPECT_EQ(shell_word("a\nb"), "$'a\\nb'");
  EXPECT_EQ(shell_word("\x1b[2J"), "$'\\x1b[2J'");
  EXPECT_EQ(shell_word("it's\n"), "$'it\\'s\\n'");
  EXPECT_EQ(shell_word("back\\slash\n"), "$'back\\\\slash\\n'");
}

}  // namespace
}  // namespace troupe::apps
