#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <troupe/apps/sweep/grid.hpp>

namespace troupe::apps {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

std::string wrong_seeds(const std::string& text) {
  const auto seeds = parse_seeds(text);
  return seeds.ok() ? "ok" : seeds.error().message;
}

std::string wrong_keys(const std::vector<std::string>& texts) {
  const auto keys = parse_swept_keys(texts);
  return keys.ok() ? "ok" : keys.error().message;
}

TEST(Seeds, AreNumbersAndRanges) {
  EXPECT_THAT(parse_seeds("1..5").value(), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(parse_seeds("7").value(), ElementsAre(7));
  EXPECT_THAT(parse_seeds("1,7,2").value(), ElementsAre(1, 7, 2));
  EXPECT_THAT(parse_seeds("0..1,9").value(), ElementsAre(0, 1, 9));
  EXPECT_THAT(parse_seeds("9223372036854775806..9223372036854775807").value(),
              ElementsAre(9223372036854775806, 9223372036854775807));
}

TEST(Seeds, OfAnyOtherFormAreRefused) {
  EXPECT_THAT(wrong_seeds("5..1"), HasSubstr("--seeds 5..1: the range 5..1 goes down"));
  EXPECT_THAT(wrong_seeds("1,2,1"), HasSubstr("the seed 1 stands there twice"));
  EXPECT_THAT(wrong_seeds("1..3,2"), HasSubstr("the seed 2 stands there twice"));
  EXPECT_THAT(wrong_seeds("1..100000"), HasSubstr("more than 4096 seeds"));
  EXPECT_THAT(wrong_seeds("0..9223372036854775807"), HasSubstr("more than 4096 seeds"));
  for (const char* const text :
       {"", ",", "1,", ",1", "1,,2", "-1", "a", "1..", "..3", "1..2..3", "1.5", "1-3", " 1", "9223372036854775808"}) {
    EXPECT_THAT(wrong_seeds(text), HasSubstr("expected FIRST..LAST")) << text;
  }
}

TEST(SweptKeys, HaveValuesBetweenCommasOutsideOfBracketsAndQuotes) {
  const std::vector<std::string> texts = {"a.b=1e-3,1e-4", "layers=[64,64],[[1,2],[3]]", "s=\"x,\\\"y\",'a,b',c",
                                          "one=1"};
  const auto keys = parse_swept_keys(texts);
  ASSERT_TRUE(keys.ok()) << keys.error().message;
  ASSERT_EQ(keys->size(), 4u);
  EXPECT_EQ((*keys)[0].key, "a.b");
  EXPECT_THAT((*keys)[0].values, ElementsAre("1e-3", "1e-4"));
  EXPECT_THAT((*keys)[1].values, ElementsAre("[64,64]", "[[1,2],[3]]"));
  EXPECT_THAT((*keys)[2].values, ElementsAre("\"x,\\\"y\"", "'a,b'", "c"));
  EXPECT_THAT((*keys)[3].values, ElementsAre("1"));
}

TEST(SweptKeys, OfAnyOtherFormAreRefused) {
  EXPECT_THAT(wrong_keys({"a"}), HasSubstr("--set a: expected KEY=VALUE"));
  EXPECT_THAT(wrong_keys({"=1"}), HasSubstr("expected KEY=VALUE"));
  EXPECT_THAT(wrong_keys({"a="}), HasSubstr("a value is empty"));
  EXPECT_THAT(wrong_keys({"a=1,,2"}), HasSubstr("a value is empty"));
  EXPECT_THAT(wrong_keys({"a=[1,2"}), HasSubstr("has no other end"));
  EXPECT_THAT(wrong_keys({"a=1],2"}), HasSubstr("has no other end"));
  EXPECT_THAT(wrong_keys({"a=\"x"}), HasSubstr("has no other end"));
  EXPECT_THAT(wrong_keys({"a=1,2,1"}), HasSubstr("the value 1 stands there twice"));
  EXPECT_THAT(wrong_keys({"a=1", "a=2"}), HasSubstr("the key stands in an earlier --set"));
  EXPECT_THAT(wrong_keys({"seed=1,2"}), HasSubstr("--seeds 1..5"));
}

TEST(Combinations, AreAllOfThemAndTheLastKeyChangesFastest) {
  const std::vector<SweptKey> keys = {{"a", {"1", "2"}}, {"b", {"x", "y", "z"}}};
  const auto all = combinations(keys);
  ASSERT_EQ(all.size(), 6u);
  EXPECT_EQ(count_combinations(keys), 6u);
  EXPECT_THAT(all[0], ElementsAre(Pair("a", "1"), Pair("b", "x")));
  EXPECT_THAT(all[1], ElementsAre(Pair("a", "1"), Pair("b", "y")));
  EXPECT_THAT(all[5], ElementsAre(Pair("a", "2"), Pair("b", "z")));
  EXPECT_EQ(in_words(all[1]), "a=1, b=y");
  ASSERT_EQ(combinations({}).size(), 1u);
  EXPECT_TRUE(combinations({})[0].empty());
  const std::vector<SweptKey> many(20, {"a", std::vector<std::string>(10, "v")});
  EXPECT_EQ(count_combinations(many), kSweepRunsMax + 1) << "and no number that overflows";
}

}  // namespace
}  // namespace troupe::apps
