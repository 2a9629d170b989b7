// Parameters out of what a part has learnt, by the names and shapes of the program that takes them. The reading of
// checkpoints is shown by those who use it (tests/apps/trained_commands_test.cpp).
#include <troupe/run/trained_part.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace troupe::actors {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(TrainedPart, GroupValuesFollowTheLayout) {
  const TrainedPart part{.name = "learner", .tensors = {{"w/1", {1}, {3}}, {"w/0", {2}, {1, 2}}}};
  learner::ParamLayout layout;
  layout.group = "w";
  layout.add("w/0", {2});
  layout.add("w/1", {1});
  const std::vector<float> values = group_values(part, layout).value();
  ASSERT_EQ(values.size(), static_cast<std::size_t>(layout.elements));
  EXPECT_THAT(std::vector<float>(values.begin(), values.begin() + 2), ElementsAre(1, 2));
  EXPECT_EQ(values[static_cast<std::size_t>(layout.find("w/1")->offset)], 3);
}

TEST(TrainedPart, WhatDoesNotFitIsNamed) {
  const TrainedPart part{.name = "learner", .tensors = {{"w/0", {2}, {1, 2}}}};
  learner::ParamLayout absent;
  absent.add("v/0", {2});
  EXPECT_EQ(group_values(part, absent).error().code, Code::kNotFound);
  EXPECT_THAT(group_values(part, absent).error().message, HasSubstr("learner: no tensor \"v/0\""));
  learner::ParamLayout larger;
  larger.add("w/0", {3});
  EXPECT_EQ(group_values(part, larger).error().code, Code::kShapeMismatch);
}

}  // namespace
}  // namespace troupe::actors
