// The conformance suite on threads of this process, and what is this back end's own.
#include <troupe/collectives/in_process.hpp>

#include <gtest/gtest.h>

#include <troupe/tests/collectives/conformance.hpp>

namespace troupe::collectives {
namespace {

struct HierarchicalCopyHub : InProcessHub {
  HierarchicalCopyHub() : InProcessHub(InProcessAlgorithm::kHierarchicalCopy) {}
};
struct ReductionToOneHub : InProcessHub {
  ReductionToOneHub() : InProcessHub(InProcessAlgorithm::kReductionToOne) {}
};

INSTANTIATE_TYPED_TEST_SUITE_P(Collective, CommunicatorConformance, InProcessHub);
INSTANTIATE_TYPED_TEST_SUITE_P(HierarchicalCopy, CommunicatorConformance, HierarchicalCopyHub);
INSTANTIATE_TYPED_TEST_SUITE_P(ReductionToOne, CommunicatorConformance, ReductionToOneHub);

TEST(InProcessHub, GivesASeatOnlyOnce) {
  InProcessHub hub;
  auto first = hub.join({.epoch = 1, .rank = 0, .size = 1}, 1s);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(hub.join({.epoch = 1, .rank = 0, .size = 1}, 1s).error().code, Code::kAlreadyExists);
}

TEST(InProcessHub, MakesCommunicatorsThatAreInNoGroupYet) {
  InProcessHub hub;
  const auto communicator = hub.make();
  EXPECT_EQ(communicator->view().size, 0);
  std::vector<float> x{1};
  const Status status = communicator->all_reduce(x, ReduceOp::kSum, {.name = "x"})->wait();
  EXPECT_EQ(status.error().code, Code::kCancelled);
  EXPECT_NE(status.error().message.find("no group yet"), std::string::npos) << status.error().message;
  communicator->abort("nothing to end");
  ASSERT_TRUE(communicator->reform({.epoch = 0, .rank = 0, .size = 1}, 1s).ok());
  EXPECT_TRUE(communicator->all_reduce(x, ReduceOp::kSum, {.name = "x"})->wait().ok());
}

TEST(InProcessHub, RanksThatDisagreeAboutTheSizeAllFail) {
  InProcessHub hub;
  auto first = hub.join({.epoch = 1, .rank = 0, .size = 1}, 1s);
  ASSERT_TRUE(first.ok());
  const auto second = hub.join({.epoch = 1, .rank = 1, .size = 2}, 1s);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, Code::kShapeMismatch);
  EXPECT_EQ((*first)->barrier({.name = "b"})->wait().error().message, second.error().message);
}

}  // namespace
}  // namespace troupe::collectives
