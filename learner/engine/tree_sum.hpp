#pragma once
// The order in which everything that is split is added up: stripes of a program here, ranks of a group in collectives.
// Neighbours first, then pairs of pairs; an odd one at the end goes up unchanged. So a whole that is cut at aligned
// powers of two, e.g. eight stripes over two replicas, gives the same bits as one that is not cut.
#include <bit>
#include <cstddef>

namespace troupe::learner {

/// leaf(first) + ... + leaf(first + count - 1) in that order; count > 0.
template <typename Leaf>
auto tree_sum(std::size_t first, std::size_t count, const Leaf& leaf) -> decltype(leaf(first)) {
  if (count == 1) return leaf(first);
  const std::size_t half = std::bit_floor(count - 1);
  return tree_sum(first, half, leaf) + tree_sum(first + half, count - half, leaf);
}

}  // namespace troupe::learner
