#include <gtest/gtest.h>

#include <string>

#include <troupe/core/text.hpp>

namespace troupe {
namespace {

TEST(Printable, LeavesOrdinaryTextAlone) {
  EXPECT_EQ(printable("learner/critic_loss"), "learner/critic_loss");
  EXPECT_EQ(printable("Größe 数 🙂"), "Größe 数 🙂");
  EXPECT_EQ(printable(""), "");
}

TEST(Printable, EscapesWhatMovesTheCursorOrForgesALine) {
  EXPECT_EQ(printable("a\nb\tc"), "a\\nb\\tc");
  EXPECT_EQ(printable("\x1b[31mred\x07"), "\\x1b[31mred\\x07");
  EXPECT_EQ(printable(std::string_view("nul\0x", 5)), "nul\\x00x");
  EXPECT_EQ(printable("del\x7f"), "del\\x7f");
  EXPECT_EQ(printable("csi\xC2\x9B"), "csi\\xc2\\x9b");  // U+009B, a one-character escape sequence
}

TEST(Printable, EscapesBytesThatAreNotUtf8) {
  EXPECT_EQ(printable("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(printable("\xC0\x80"), "\\xc0\\x80");                    // overlong NUL
  EXPECT_EQ(printable("\xE0\x80\x80"), "\\xe0\\x80\\x80");           // overlong
  EXPECT_EQ(printable("\xED\xA0\x80"), "\\xed\\xa0\\x80");           // surrogate
  EXPECT_EQ(printable("\xF4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // above U+10FFFF
  EXPECT_EQ(printable("\xE6\x95"), "\\xe6\\x95");                    // ends in the middle
}

TEST(Printable, CutsAtACharacterWithinTheBound) {
  EXPECT_EQ(printable(std::string(1 << 20, 'x')), std::string(256, 'x') + "...");
  EXPECT_EQ(printable("aé", 2), "a...");
  EXPECT_EQ(printable("ab", 2), "ab");
}

}  // namespace
}  // namespace troupe
