#include <troupe/learner/replicate/param_partition.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace troupe::learner {
namespace {

using Ranges = std::vector<messages::ParametersRange>;

/// 0: [5, 16] at 0, 1: [3] at 80 (13 elements of padding), 2: scalar at 96, 3: [2, 8] at 112; 128 in all.
ParamLayout partitioned_layout() {
  ParamLayout layout;
  layout.add("a/weight", {5, 16});
  layout.add("a/bias", {3});
  layout.add("a/scale", {});
  layout.add("b/weight", {2, 8});
  return layout;
}

TEST(ParamPartition, EveryElementIsInExactlyOnePieceWhateverTheRule) {
  for (const ParamPartition how : {ParamPartition::kPartitioned, ParamPartition::kMinSize, ParamPartition::kMaxSize}) {
    for (std::size_t shards : {1, 2, 3, 7}) {
      const auto pieces = partition(partitioned_layout(), shards, how, /*part_bytes=*/100);  // no multiple of any row
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

TEST(ParamPartition, PartitionedCutsTensorsAlongTheirFirstAxis) {
  const auto pieces = partition(partitioned_layout(), 2, ParamPartition::kPartitioned);
  // Rows 0..2 of the first tensor, rows 0..1 of the second, the scalar, row 1 of the last: parts go in turn.
  EXPECT_EQ(pieces[0].ranges, (Ranges{{0, 48}, {80, 2}, {96, 16}, {120, 8}}));
  EXPECT_EQ(pieces[1].ranges, (Ranges{{48, 32}, {82, 14}, {112, 8}}));
}

TEST(ParamPartition, MinSizeCutsNothingBelowTheSizeThatWasAskedFor) {
  // Rows of 64 bytes: two of them make 100, so 5 rows are cut into 2 parts; 2 rows of 32 stay whole.
  const auto pieces = partition(partitioned_layout(), 3, ParamPartition::kMinSize, 100);
  EXPECT_EQ(pieces[0].ranges, (Ranges{{0, 48}, {96, 16}}));
  EXPECT_EQ(pieces[1].ranges, (Ranges{{48, 32}, {112, 16}}));
  EXPECT_EQ(pieces[2].ranges, (Ranges{{80, 16}}));
  // tf's default of 256 KiB leaves tensors that small whole.
  EXPECT_EQ(partition(partitioned_layout(), 3, ParamPartition::kMinSize)[0].ranges, (Ranges{{0, 80}, {112, 16}}));
}

TEST(ParamPartition, MaxSizeMakesAsManyPartsAsThatTakes) {
  // Two rows of 64 bytes fit into 128: parts of 2, 2 and 1 rows; the other tensors are below. The six parts go round.
  const auto pieces = partition(partitioned_layout(), 2, ParamPartition::kMaxSize, 128);
  EXPECT_EQ(pieces[0].ranges, (Ranges{{0, 32}, {64, 16}, {96, 16}}));
  EXPECT_EQ(pieces[1].ranges, (Ranges{{32, 32}, {80, 16}, {112, 16}}));
  // A row is never cut, however small the parts should be.
  EXPECT_EQ(partition(partitioned_layout(), 100, ParamPartition::kMaxSize, 1)[4].ranges, (Ranges{{64, 16}}));
}

}  // namespace
}  // namespace troupe::learner
