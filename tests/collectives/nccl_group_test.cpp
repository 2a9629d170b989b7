// Who may use NCCL: a table of groups and what is said of them, and that all members hear the same.
#include <troupe/collectives/nccl_group.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include <troupe/collectives/in_process.hpp>

namespace troupe::collectives {
namespace {

using namespace std::chrono_literals;

constexpr int kVersion = 22809;
NcclMember on_gpu(int device, bool interface = false) {
  return {.device = device,
          .version = kVersion,
          .gpu = 0xfedcba9876543210ULL + static_cast<std::uint64_t>(device),
          .interface = interface};
}

/// A group with a member on each of these hosts.
GroupView on_hosts(const std::vector<std::string>& hosts) {
  GroupView view{.epoch = 3, .size = static_cast<int>(hosts.size())};
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    view.members.push_back(
        {.id = static_cast<std::uint32_t>(i), .name = "learner-" + std::to_string(i), .host = hosts[i]});
  }
  return view;
}

TEST(NcclGroup, EachMemberNeedsAGpuAndTheSameNccl) {
  const GroupView view = on_hosts({"a", "a"});
  const std::vector<NcclMember> good = {on_gpu(0), on_gpu(1)};
  EXPECT_EQ(why_not_nccl(view, good), "");
  std::vector<NcclMember> members = good;
  members[1] = {};
  EXPECT_EQ(why_not_nccl(view, members), "rank 1 (learner-1) is on the processor");
  members[1] = {.device = 1};
  EXPECT_EQ(why_not_nccl(view, members), "rank 1 (learner-1) has no NCCL to use, as its own log says");
  members = good;
  members[1].version = 22703;
  EXPECT_EQ(why_not_nccl(view, members), "rank 0 (learner-0) has NCCL 2.28.9 and rank 1 (learner-1) has NCCL 2.27.3");
}

TEST(NcclGroup, AGpuHasOneRank) {
  std::vector<NcclMember> members = {on_gpu(0), on_gpu(1), on_gpu(0)};
  EXPECT_EQ(why_not_nccl({.epoch = 1, .size = 3}, members),
            "rank 0 and rank 2 share a GPU, and NCCL wants one for each")
      << "threads of one process";
  members = {on_gpu(0, true), on_gpu(0, true)};
  EXPECT_EQ(why_not_nccl(on_hosts({"a", "a"}), members),
            "rank 0 (learner-0) and rank 1 (learner-1) share a GPU, and NCCL wants one for each");
  EXPECT_EQ(why_not_nccl(on_hosts({"a", "b"}), members), "") << "that of another host is another one";
  members[1].gpu = 7;  // both processes see one GPU and call it 0
  EXPECT_EQ(why_not_nccl(on_hosts({"a", "a"}), members), "");
}

TEST(NcclGroup, BetweenHostsAllNameANetwork) {
  std::vector<NcclMember> members = {on_gpu(0), on_gpu(1), on_gpu(2)};
  EXPECT_EQ(why_not_nccl(on_hosts({"a", "a", "a"}), members), "");
  const std::string expected =
      "rank 0 (learner-0) and rank 2 (learner-2) are not known to share a loopback, and on a network NCCL's sockets, "
      "which authenticate nobody, may only be where security.nccl_interface says that it is trusted: it names none";
  EXPECT_EQ(why_not_nccl(on_hosts({"a", "a", "b"}), members), expected);
  EXPECT_EQ(why_not_nccl(on_hosts({"", "a", "a"}), members).substr(0, 45),
            "rank 0 (learner-0) and rank 1 (learner-1) are");
  EXPECT_NE(why_not_nccl(on_hosts({"", "", ""}), members), "") << "an unknown host is nobody's";
  members[2].loopback = 4026532;
  EXPECT_EQ(why_not_nccl(on_hosts({"a", "a", "a"}), members), expected) << "two containers of a host";
  for (NcclMember& member : members) {
    EXPECT_EQ(why_not_nccl(on_hosts({"a", "a", "b"}), members), expected);
    member.interface = true;
  }
  EXPECT_EQ(why_not_nccl(on_hosts({"a", "a", "b"}), members), "");
}

TEST(NcclGroup, AllMembersHearWhatEachSays) {
  InProcessHub hub;
  const std::vector<NcclMember> said = {
      on_gpu(3, true), {}, {.device = 15, .version = 99999, .gpu = ~0ULL, .loopback = ~1ULL}};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      const auto communicator = hub.join({.epoch = 1, .rank = rank, .size = 3}, 20s).value();
      EXPECT_EQ(gather_nccl_members(*communicator, said[static_cast<std::size_t>(rank)]).value(), said);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(devices_text(std::vector<NcclMember>{on_gpu(3), on_gpu(0)}), "cuda:3, cuda:0");
  EXPECT_EQ(nccl_version_text(kVersion), "2.28.9");
}

}  // namespace
}  // namespace troupe::collectives
