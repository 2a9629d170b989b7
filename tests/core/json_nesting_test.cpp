#include <troupe/core/json_nesting.hpp>

#include <gtest/gtest.h>

#include <string>

namespace troupe {
namespace {

TEST(JsonNesting, CountsWhatIsOpenAndNothingInTexts) {
  EXPECT_FALSE(json_nests_beyond("", 0));
  EXPECT_FALSE(json_nests_beyond("7", 0));
  EXPECT_TRUE(json_nests_beyond("[]", 0));
  EXPECT_FALSE(json_nests_beyond(R"({"a": [1, [2]], "b": {"c": []}})", 3));
  EXPECT_TRUE(json_nests_beyond(R"({"a": [1, [2]], "b": {"c": []}})", 2));
  EXPECT_FALSE(json_nests_beyond(R"(["[[[{{{", "\\", "\"[[["])", 1));
  EXPECT_FALSE(json_nests_beyond(R"(["\)", 1)) << "the text ends within an escape";
  EXPECT_FALSE(json_nests_beyond("[],[],{},]]]]", 1)) << "what is no JSON is told by its parser";
  EXPECT_FALSE(json_nests_beyond(std::string(1'000'000, '['), 1'000'000));
  EXPECT_TRUE(json_nests_beyond(std::string(1'000'000, '['), 999'999));
}

}  // namespace
}  // namespace troupe
