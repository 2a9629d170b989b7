// NCCL as far as a machine without a GPU lets it come: opened, asked for an id, refused by CUDA, and the error given to
// every rank. With a GPU the group forms, and these tests say that they were not written for that.
#include <troupe/collectives/nccl.hpp>

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include <troupe/collectives/group_communicator.hpp>
#include <troupe/tests/collectives/memory_peers.hpp>

namespace troupe::collectives {
namespace {

using namespace std::chrono_literals;

TEST(Nccl, SaysWhichLibraryCannotBeOpened) {
  MemoryNetwork network;
  const auto peers = network.join(0);
  const auto made = make_nccl_communicator(make_group_communicator(*peers, 0), {.library = "/nowhere/libnccl.so.2"});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, Code::kUnavailable);
  EXPECT_NE(made.error().message.find("nccl"), std::string::npos) << made.error().message;
}

TEST(Nccl, WithoutADriverEveryRankIsToldSoAndNothingCrashes) {
  MemoryNetwork network;
  std::vector<std::unique_ptr<Peers>> peers;
  for (std::uint32_t id = 0; id < 2; ++id) peers.push_back(network.join(id));
  if (const auto made = make_nccl_communicator(make_group_communicator(*peers[0], 0)); !made.ok()) {
    GTEST_SKIP() << made.error().message;
  }
  peers[0] = network.join(0);
  std::vector<Status> formed(2);
  std::vector<Status> called(2);
  std::vector<std::thread> threads;
  for (std::uint32_t id = 0; id < 2; ++id) {
    threads.emplace_back([&, id] {
      auto made = make_nccl_communicator(make_group_communicator(*peers[id], id));
      ASSERT_TRUE(made.ok());
      Communicator& communicator = **made;
      std::vector<float> none;
      EXPECT_EQ(communicator.all_reduce(none, ReduceOp::kSum, {.name = "x"})->wait().error().code, Code::kCancelled);
      const GroupView view{.epoch = 1,
                           .rank = static_cast<int>(id),
                           .size = 2,
                           .members = {{.id = 0, .host = "here"}, {.id = 1, .host = "here"}}};
      formed[id] = communicator.reform(view, 30s);
      called[id] = communicator.all_reduce(none, ReduceOp::kMean, {.name = "x"})->wait();
      communicator.abort("over");
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (formed[0].ok()) GTEST_SKIP() << "there is a GPU here";
  for (std::size_t id = 0; id < 2; ++id) {
    ASSERT_FALSE(formed[id].ok());
    ASSERT_FALSE(called[id].ok());
    EXPECT_EQ(formed[id].error().message, called[id].error().message) << "the first failure stays";
  }
  // The other may hear of it from this one's abort before NCCL refuses it.
  const bool named = formed[0].error().message.find("ncclCommInitRankConfig") != std::string::npos ||
                     formed[1].error().message.find("ncclCommInitRankConfig") != std::string::npos;
  EXPECT_TRUE(named) << formed[0].error().message << " / " << formed[1].error().message;
}

}  // namespace
}  // namespace troupe::collectives
