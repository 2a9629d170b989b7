#pragma once
// Weights with fast prefix-sum search, for prioritised draws. A node holds the sums of 8 children, one cache line, so a
// million leaves are 7 levels. A node is always recomputed from its children, never adjusted by a difference: sums
// depend on the present weights alone, so rounding errors cannot build up (Reverb rebuilds its tree when they do), and
// a tree restored from its weights is the same bit for bit.
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include <troupe/replay/selector.hpp>

namespace troupe::replay {

/// Weights are finite and >= 0, and so is their sum. Memory grows with the number of leaves: 8/7 doubles each.
class SumTree {
 public:
  std::int64_t size() const { return size_; }
  double weight(Slot leaf) const { return levels_[0][leaf / kFan].child[leaf % kFan]; }
  /// Sum over all leaves; 0 when there are none.
  double total() const { return levels_.empty() ? 0 : sum(levels_.back()[0]); }

  /// Leaf size() with this weight. O(log size).
  void append(double weight);
  /// Removes leaf size()-1.
  void pop_back();
  void set(Slot leaf, double weight);
  /// Sets many, in order; goes level by level, so that a parent shared by several leaves is summed up few times.
  void set(std::span<const Slot> leaves, std::span<const double> weights);
  /// Makes these the leaves. O(size).
  void assign(std::span<const double> weights);

  /// leaves[i] = the first leaf at which the running sum of weights exceeds targets[i]; targets lie in [0, total()),
  /// and total() > 0. Never a leaf of weight 0, however the sums were rounded. Overwrites targets. Descends with the
  /// whole batch level by level, so that the cache misses of different draws overlap.
  void find(std::span<double> targets, std::span<Slot> leaves) const;

 private:
  static constexpr std::uint32_t kFan = 8;
  struct alignas(64) Node {
    std::array<double, kFan> child{};
  };

  static double sum(const Node& node);
  void add_level_if_needed();

  std::vector<std::vector<Node>> levels_;  // [0]: the leaves, 8 a node; back(): the one root node
  std::int64_t size_ = 0;
  std::vector<std::uint32_t> touched_;  // nodes that set() still has to carry upwards
};

}  // namespace troupe::replay
