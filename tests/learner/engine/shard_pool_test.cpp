#include <gtest/gtest.h>

#include <array>
#include <atomic>

#include <troupe/learner/engine/shard_pool.hpp>

namespace troupe::learner {
namespace {

TEST(ShardPool, HoldsAllShardsAtEveryBarrier) {
  for (const int shards : {1, 2, 5}) {
    struct Shared {
      ShardPool pool;
      std::array<std::atomic<int>, 5> rounds{};
      std::atomic<int> ahead{0};
    } shared{ShardPool(shards)};
    for (int run = 0; run < 200; ++run) {
      shared.pool.run(
          [](void* context, int shard) {
            auto& s = *static_cast<Shared*>(context);
            for (int round = 0; round < 3; ++round) {
              const int mine = ++s.rounds[static_cast<std::size_t>(shard)];
              s.pool.barrier();
              for (int other = 0; other < s.pool.shards(); ++other) {
                s.ahead += s.rounds[static_cast<std::size_t>(other)] < mine;  // somebody had not arrived
              }
              s.pool.barrier();
            }
          },
          &shared);
    }
    EXPECT_EQ(shared.ahead, 0);
    for (int shard = 0; shard < shards; ++shard) EXPECT_EQ(shared.rounds[static_cast<std::size_t>(shard)], 600);
  }
}

}  // namespace
}  // namespace troupe::learner
