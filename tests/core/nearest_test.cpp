#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <troupe/core/nearest.hpp>

namespace troupe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(EditDistance, CountsEachKindOfSlipOnce) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
  EXPECT_EQ(edit_distance("walker", "walker"), 0u);
  EXPECT_EQ(edit_distance("walker", "wlaker"), 1u);   // swap
  EXPECT_EQ(edit_distance("walker", "waker"), 1u);    // deletion
  EXPECT_EQ(edit_distance("walker", "wallker"), 1u);  // insertion
  EXPECT_EQ(edit_distance("walker", "talker"), 1u);   // substitution
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

TEST(EditDistance, IsSymmetric) { EXPECT_EQ(edit_distance("cheetah", "hctaeeh"), edit_distance("hctaeeh", "cheetah")); }

TEST(Nearest, RanksByDistanceAndKeepsTheOrderOfTies) {
  const std::vector<std::string> known = {"walker-run", "walker-walk", "walker-stand", "cheetah-run"};
  EXPECT_THAT(nearest("walker-rum", known, 1), ElementsAre("walker-run"));
  EXPECT_THAT(nearest("walker-xxx", known), ElementsAre("walker-run"));
  const std::vector<std::string> ties = {"bat", "cat", "hat"};
  EXPECT_THAT(nearest("mat", ties), ElementsAre("bat", "cat", "hat"));
}

TEST(Nearest, OffersWhatBeginsWithTheName) {
  const std::vector<std::string> known = {"cheetah-run", "walker-run", "walker-stand"};
  EXPECT_THAT(nearest("cheetah", known), ElementsAre("cheetah-run"));
}

TEST(Nearest, SaysNothingWhenNothingIsNear) {
  const std::vector<std::string> known = {"cheetah-run", "walker-run"};
  EXPECT_THAT(nearest("pong", known), IsEmpty());
  EXPECT_THAT(nearest("", known), IsEmpty());
  EXPECT_THAT(nearest("x", {}), IsEmpty());
}

}  // namespace
}  // namespace troupe
