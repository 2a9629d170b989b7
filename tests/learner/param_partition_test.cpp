#include <troupe/learner/param_partition.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace troupe::learner {
namespace {

using Ranges = std::vector<messages::ParametersRange>;

/// 0: [5, 16] at 0, 1: [3] at 80 (13 elements of padding), 2: scalar at 96, 3: [2, 8] at 112; 128 in all.
ParamLayout layout() {
  ParamLayout layout;
  layout.add("a/weight", {5, 16});
  layout.add("a/bias", {3});
  layout.add("a/scale", {});
  layout.add("b/weight", {2, 8});
  return layout;
}

TEST(ParamPartition, EveryElementIsInExactlyOnePieceWhateverTheRule) {
  for (const ParamPartition how :
       {ParamPartition::kRoundRobin, ParamPartition::kGreedy, ParamPartition::kPartitioned}) {
    for (std::size_t shards : {1, 2, 3, 7}) {
      const auto pieces = partition(layout(), shards, how);
      ASSERT_EQ(pieces.size(), shards);
      std::vector<int> covered(128, 0);
      for (std::size_t s = 0; s < shards; ++s) {
        EXPECT_EQ(pieces[s].index, s);
        EXPECT_EQ(pieces[s].count, shards);
        EXPECT_EQ(pieces[s].elements, 128);
        std::int64_t end = -1;
        for (const auto& range : pieces[s].ranges) {
          EXPECT_GT(range.offset, end) << "ranges of a piece are ascending, and neighbours are one";
          end = range.offset + range.count;
          for (std::int64_t i = range.offset; i < end; ++i) ++covered[static_cast<std::size_t>(i)];
        }
      }
      EXPECT_THAT(covered, ::testing::Each(1));
    }
  }
}

TEST(ParamPartition, RoundRobinDealsWholeTensors) {
  const auto pieces = partition(layout(), 2, ParamPartition::kRoundRobin);
  EXPECT_EQ(pieces[0].ranges, (Ranges{{0, 80}, {96, 16}}));
  EXPECT_EQ(pieces[1].ranges, (Ranges{{80, 16}, {112, 16}}));
}

TEST(ParamPartition, GreedyGivesTheNextTensorToTheSmallestShard) {
  const auto pieces = partition(layout(), 2, ParamPartition::kGreedy);
  EXPECT_EQ(pieces[0].ranges, (Ranges{{0, 80}}));
  EXPECT_EQ(pieces[1].ranges, (Ranges{{80, 48}}));
}

TEST(ParamPartition, PartitionedCutsTensorsAlongTheirFirstAxis) {
  const auto pieces = partition(layout(), 2, ParamPartition::kPartitioned);
  // Rows 0..2 of the first tensor, rows 0..1 of the second, the scalar, row 1 of the last: parts go in turn.
  EXPECT_EQ(pieces[0].ranges, (Ranges{{0, 48}, {80, 2}, {96, 16}, {120, 8}}));
  EXPECT_EQ(pieces[1].ranges, (Ranges{{48, 32}, {82, 14}, {112, 8}}));
}

TEST(ParamPartition, ItsNamesAreThoseOfTheConfiguration) {
  EXPECT_EQ(param_partition("round_robin"), ParamPartition::kRoundRobin);
  EXPECT_EQ(param_partition("greedy"), ParamPartition::kGreedy);
  EXPECT_EQ(param_partition("partitioned"), ParamPartition::kPartitioned);
  EXPECT_EQ(param_partition("Greedy"), std::nullopt);
}

}  // namespace
}  // namespace troupe::learner
