#include <gtest/gtest.h>

#include <cctype>
#include <set>
#include <string>
#include <vector>

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
  for (const char* turn : {"\u061C", "\u200F", "\u2028", "\u202E", "\u2066", "\u2069"}) {
    EXPECT_TRUE(printable(turn).starts_with("\\x")) << "it turns the direction of writing, or begins a line";
  }
  EXPECT_EQ(printable("\u200D\u2070\u2030"), "\u200D\u2070\u2030");
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

TEST(SafeName, LeavesANameAsItIs) {
  for (const char* name : {"cartpole-swingup-20231114-221320", "a", "7", "a.b_c-d", "slurm-12"}) {
    EXPECT_EQ(safe_name(name), name);
  }
  EXPECT_EQ(safe_name(std::string(kSafeNameBytesMax, 'x')), std::string(kSafeNameBytesMax, 'x'));
}

TEST(SafeName, MakesOneOfAnything) {
  std::set<std::string> names;
  const std::vector<std::string> texts = {"",
                                          " ",
                                          ".",
                                          "..",
                                          "-",
                                          "-x",
                                          ".x",
                                          "my run (1)",
                                          "my run (2)",
                                          "a+b",
                                          "a=b",
                                          "a,b",
                                          "a~b",
                                          "a b",
                                          "A",
                                          "Gr\xC3\xB6\xC3\x9F"
                                          "e",
                                          "\xff\xfe",
                                          "\n",
                                          "x\x1b[31m",
                                          "\xE6\x95\xB0",
                                          std::string(65, 'x'),
                                          std::string(66, 'x'),
                                          std::string(4096, 'x'),
                                          std::string(255, ' '),
                                          std::string("a\0b", 3)};
  for (const std::string& text : texts) {
    const std::string name = safe_name(text);
    EXPECT_LE(name.size(), kSafeNameBytesMax) << name;
    ASSERT_FALSE(name.empty());
    EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789._-"), std::string::npos) << name;
    EXPECT_TRUE(std::isalnum(static_cast<unsigned char>(name[0]))) << name;
    EXPECT_EQ(safe_name(name), name) << "a safe name is one";
    names.insert(name);
  }
  EXPECT_EQ(names.size(), texts.size()) << "different texts have different names";
  EXPECT_EQ(safe_name("my run (1)").substr(0, 9), "my-run-1-");
}

TEST(Shortened, EndsBetweenCharacters) {
  EXPECT_EQ(shortened("abc", 3), "abc");
  EXPECT_EQ(shortened("abc", 2), "ab");
  EXPECT_EQ(shortened("a\xC3\xB6", 2), "a");
  EXPECT_EQ(shortened("\x80\x80\x80", 2), "\x80\x80");
}

TEST(Lines, AreWithoutTheirEnds) {
  EXPECT_TRUE(lines("").empty());
  EXPECT_EQ(lines("a"), (std::vector<std::string_view>{"a"}));
  EXPECT_EQ(lines("a\n\nb\n"), (std::vector<std::string_view>{"a", "", "b"}));
}

}  // namespace
}  // namespace troupe
