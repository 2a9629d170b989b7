#include <troupe/actors/control/placement.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <troupe/tests/actors/test_roles.hpp>

namespace troupe::actors {
namespace {

using ::testing::HasSubstr;

/// Three counters and a collector.
Topology topology() { return testing::counting(3, 10, 2, nullptr); }

TEST(Placement, EverythingOnOneNodeIsEverythingOnce) {
  const auto placed = all_on("alone", topology());
  ASSERT_EQ(placed.size(), 1u);
  EXPECT_EQ(placed[0].name, "alone");
  EXPECT_TRUE(check(topology(), placed).ok());
}

TEST(Placement, ARoleMaySpreadOverNodesAndANodeMayHostNothing) {
  const std::vector<PlacedNode> placed = {
      {"chief", {}}, {"a", {{"counter", {0, 2}}}}, {"b", {{"collector", {0}}, {"counter", {1}}}}};
  EXPECT_TRUE(check(topology(), placed).ok());
}

TEST(Placement, EveryFaultIsNamedOnALineOfItsOwn) {
  const std::vector<PlacedNode> placed = {
      {"a", {{"counter", {0, 7}}}}, {"a", {{"counter", {0}}, {"learner", {0}}}}, {"b", {{"counter", {1}}}}};
  const Status status = check(topology(), placed);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::kInvalidArgument);
  EXPECT_EQ(status.error().message,
            "placement: node a hosts counter-7, expected indices below 3\n"
            "placement: two nodes are named a\n"
            "placement: counter-0 is on node a and on node a\n"
            "placement: node a hosts learner, which is no role of this topology\n"
            "placement: counter-2 is on no node\n"
            "placement: collector-0 is on no node");
}

TEST(Placement, NothingPlacedIsAFaultForEveryInstance) {
  EXPECT_THAT(check(topology(), {}).error().message, HasSubstr("counter-1 is on no node"));
}

}  // namespace
}  // namespace troupe::actors
