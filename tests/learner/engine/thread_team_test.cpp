#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <limits>

#include <troupe/learner/engine/thread_team.hpp>

namespace troupe::learner {
namespace {

TEST(ThreadTeam, HoldsAllThreadsAtEveryBarrier) {
  for (const int threads : {1, 2, 5}) {
    struct Shared {
      ThreadTeam team;
      std::array<std::atomic<int>, 5> rounds{};
      std::atomic<int> ahead{0};
    } shared{ThreadTeam(threads)};
    for (int run = 0; run < 200; ++run) {
      shared.team.run(
          [](void* context, int thread) {
            auto& s = *static_cast<Shared*>(context);
            for (int round = 0; round < 3; ++round) {
              const int mine = ++s.rounds[static_cast<std::size_t>(thread)];
              s.team.barrier();
              for (int other = 0; other < s.team.threads(); ++other) {
                s.ahead += s.rounds[static_cast<std::size_t>(other)] < mine;  // somebody had not arrived
              }
              s.team.barrier();
            }
          },
          &shared);
    }
    EXPECT_EQ(shared.ahead, 0);
    for (int thread = 0; thread < threads; ++thread) EXPECT_EQ(shared.rounds[static_cast<std::size_t>(thread)], 600);
  }
}

/// A denormal number, unless they are 0.
float half_of_the_least_normal() {
  volatile float least = std::numeric_limits<float>::min();
  return least * 0.5F;
}

TEST(ThreadTeam, CountsDenormalNumbersAsZeroWithinAJobAlone) {
  ThreadTeam team(3);
  std::array<float, 3> halves{1, 1, 1};
  team.run(
      [](void* context, int thread) {
        (*static_cast<decltype(halves)*>(context))[static_cast<std::size_t>(thread)] = half_of_the_least_normal();
      },
      &halves);
  EXPECT_EQ(halves, (std::array<float, 3>{0, 0, 0}));
  EXPECT_GT(half_of_the_least_normal(), 0) << "what is not a program's is left alone";
}

}  // namespace
}  // namespace troupe::learner
