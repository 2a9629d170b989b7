#include <troupe/learner/engine/cuda/node_order.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace troupe::learner {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::array<std::byte, 100> memory;
MemoryRange at(std::size_t begin, std::size_t bytes = 10) { return {memory.data() + begin, bytes}; }

TEST(NodeOrder, BranchesDoNotWaitForOneAnother) {
  const NodeMemory nodes[] = {{{}, {at(0)}}, {{at(0)}, {at(10)}}, {{at(0)}, {at(20)}}, {{at(10), at(20)}, {at(30)}}};
  const auto order = order_nodes(nodes, 1);
  EXPECT_THAT(order[0].after, IsEmpty());
  EXPECT_THAT(order[1].after, ElementsAre(0));
  EXPECT_THAT(order[2].after, ElementsAre(0));
  EXPECT_THAT(order[3].after, ElementsAre(2, 1));
}

TEST(NodeOrder, WhoWritesWaitsForReadersOfWhatWasThere) {
  const NodeMemory nodes[] = {{{}, {at(0)}}, {{at(0)}, {at(10)}}, {{at(0)}, {at(20)}}, {{}, {at(5, 1)}}};
  EXPECT_THAT(order_nodes(nodes, 1)[3].after, ElementsAre(2, 1));  // of the first they wait already
}

TEST(NodeOrder, RangesThatOnlyTouchAreNoReason) {
  const NodeMemory nodes[] = {{{}, {at(0)}}, {{}, {at(10)}}, {{}, {at(15, 0)}}};
  for (const NodeOrder& each : order_nodes(nodes, 1)) EXPECT_THAT(each.after, IsEmpty());
}

TEST(NodeOrder, WorkspacesAreSharedWhereTheyCostNoWait) {
  const NodeMemory nodes[] = {{{}, {at(0)}, true},
                              {{}, {at(10)}, true},
                              {{at(0)}, {at(20)}, true},  // behind the first one anyway
                              {{}, {at(30)}, true}};      // behind nobody: the one longest unused
  const auto order = order_nodes(nodes, 2);
  EXPECT_EQ(order[0].workspace, 0U);
  EXPECT_EQ(order[1].workspace, 1U);
  EXPECT_EQ(order[2].workspace, 0U);
  EXPECT_THAT(order[2].after, ElementsAre(0));
  EXPECT_EQ(order[3].workspace, 1U);
  EXPECT_THAT(order[3].after, ElementsAre(1));
}

TEST(NodeOrder, OneWorkspaceIsAQueue) {
  const NodeMemory nodes[] = {{{}, {at(0)}, true}, {{}, {at(10)}}, {{}, {at(20)}, true}};
  const auto order = order_nodes(nodes, 1);
  EXPECT_THAT(order[1].after, IsEmpty());
  EXPECT_THAT(order[2].after, ElementsAre(0));
}

TEST(NodeOrder, InStepIsWhatSharesNoMemoryOrAllOfIt) {
  const NodeMemory node{{at(0)}, {at(20)}};
  EXPECT_TRUE(in_step(node, {{at(20)}, {at(40)}})) << "reads what was written";
  EXPECT_TRUE(in_step(node, {{at(40)}, {at(0)}})) << "writes over what was read";
  EXPECT_TRUE(in_step(node, {{at(5)}, {at(40)}})) << "reads what was read";
  EXPECT_FALSE(in_step(node, {{at(24)}, {at(40)}})) << "reads an element that another thread has written";
  EXPECT_FALSE(in_step(node, {{at(40)}, {at(4)}}));
}

}  // namespace
}  // namespace troupe::learner
