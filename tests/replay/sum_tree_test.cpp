// The tree against plain sums: after any history the same as built afresh, and robust where rounding is worst.
#include <troupe/replay/selectors/sum_tree.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

namespace troupe::replay {
namespace {

TEST(SumTree, StartsEmpty) {
  SumTree tree;
  EXPECT_EQ(tree.size(), 0);
  EXPECT_EQ(tree.total(), 0);
}

TEST(SumTree, FindsTheLeafThatHoldsTheTarget) {
  // Whole numbers add up exactly, so every target has one right answer.
  for (std::size_t count : {1u, 2u, 7u, 8u, 9u, 64u, 65u, 513u}) {
    SumTree tree;
    std::vector<Slot> expected;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t weight = (i * 7 + 1) % 5;
      tree.append(static_cast<double>(weight));
      expected.insert(expected.end(), weight, static_cast<Slot>(i));
    }
    ASSERT_EQ(tree.total(), static_cast<double>(expected.size()));
    std::vector<double> targets(expected.size());
    std::iota(targets.begin(), targets.end(), 0.0);
    std::vector<Slot> found(expected.size());
    tree.find(targets, found);
    EXPECT_EQ(found, expected) << count << " leaves";
  }
}

TEST(SumTree, DoesNotDriftOverManyUpdates) {
  // Adding and removing 1e15 to a sum of small numbers loses their digits if sums are adjusted by differences.
  SumTree tree;
  std::vector<double> weights(1000);
  Rng rng(1);
  for (double& weight : weights) tree.append(weight = rng.uniform());
  for (int i = 0; i < 100000; ++i) {
    const auto leaf = static_cast<Slot>(rng.below(weights.size()));
    tree.set(leaf, 1e15);
    tree.set(leaf, weights[leaf] = rng.uniform());
  }
  SumTree fresh;
  fresh.assign(weights);
  EXPECT_EQ(tree.total(), fresh.total());
}

TEST(SumTree, BatchAndSingleUpdatesAgreeBitForBit) {
  SumTree one;
  SumTree two;
  Rng rng(2);
  for (int i = 0; i < 5000; ++i) {
    const double weight = rng.uniform();
    one.append(weight);
    two.append(weight);
  }
  for (int round = 0; round < 100; ++round) {
    std::vector<Slot> leaves(64);
    std::vector<double> weights(64);
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      leaves[i] = static_cast<Slot>(rng.below(round % 2 == 0 ? 5000 : 40));  // odd rounds: repeats, where the last wins
      weights[i] = rng.uniform();
      one.set(leaves[i], weights[i]);
    }
    two.set(leaves, weights);
    ASSERT_EQ(one.total(), two.total());
    for (Slot leaf : leaves) ASSERT_EQ(one.weight(leaf), two.weight(leaf));
  }
}

TEST(SumTree, NeverFindsAWeightlessLeafHoweverSumsAreRounded) {
  SumTree tree;
  std::vector<double> weights(600);
  Rng rng(3);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    weights[i] = rng.below(3) == 0 ? std::pow(10.0, rng.uniform() * 40 - 20) : 0.0;
    tree.append(weights[i]);
  }
  std::vector<double> targets(4096);
  for (std::size_t i = 0; i < targets.size(); ++i) targets[i] = rng.uniform() * tree.total();
  for (std::size_t i = 0; i < 64; ++i) {  // just below the end, where running sums and node sums may disagree
    targets[i] = tree.total();
    for (std::size_t k = 0; k <= i; ++k) targets[i] = std::nextafter(targets[i], 0.0);
  }
  targets[64] = 0;
  std::vector<Slot> found(targets.size());
  tree.find(targets, found);
  for (Slot leaf : found) {
    ASSERT_LT(leaf, weights.size());
    ASSERT_GT(weights[leaf], 0);
  }
}

TEST(SumTree, ShrinksAndGrowsAgain) {
  SumTree tree;
  for (int i = 0; i < 100; ++i) tree.append(1);
  for (int i = 0; i < 60; ++i) tree.pop_back();
  EXPECT_EQ(tree.size(), 40);
  EXPECT_EQ(tree.total(), 40);
  for (int i = 0; i < 500; ++i) tree.append(2);
  EXPECT_EQ(tree.total(), 1040);
}

}  // namespace
}  // namespace troupe::replay
