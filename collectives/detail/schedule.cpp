#include <troupe/collectives/detail/schedule.hpp>

#include <algorithm>

namespace troupe::collectives::detail {
namespace {

/// Calls emit(stage, block) for every stage of every block, a stage of a block `lag` blocks behind the one before,
/// later stages first. All ranks go in this order, so what one sends in stage s another can take in stage s + 1.
template <typename Emit>
void overlap(std::size_t blocks, std::size_t stages, Emit emit, std::size_t lag = kLag) {
  if (blocks == 0) return;
  for (std::size_t time = 0; time < blocks + (stages - 1) * lag; ++time) {
    for (std::size_t stage = stages; stage-- > 0;) {
      if (time >= stage * lag && time - stage * lag < blocks) emit(stage, time - stage * lag);
    }
  }
}

struct Range {
  std::size_t begin = 0;
  std::size_t count = 0;
};

Range block_range(std::size_t block, std::size_t block_count, std::size_t count) {
  const std::size_t begin = block * block_count;
  return {begin, std::min(block_count, count - begin)};
}

/// Part `part` of `parts` of a block, as equal as can be.
Range slice(const Range& block, int part, int parts) {
  const auto at = [&](int p) { return block.count * static_cast<std::size_t>(p) / static_cast<std::size_t>(parts); };
  return {block.begin + at(part), at(part + 1) - at(part)};
}

std::size_t blocks_of(std::size_t count, std::size_t block_count) { return (count + block_count - 1) / block_count; }

bool contributes(const Place& place, int rank) {
  return place.contributes.empty() || place.contributes[static_cast<std::size_t>(rank)];
}

/// Calls body(peer) for all others, each rank beginning at its neighbour so that they do not all send to one at once.
template <typename Body>
void for_peers(const Place& place, Body body) {
  for (int distance = 1; distance < place.size; ++distance) body((place.rank + distance) % place.size);
}

}  // namespace

std::vector<DoublingLevel> doubling(int rank, int size) {
  std::vector<DoublingLevel> levels;
  for (int half = 1; half < size; half *= 2) {
    const int left = rank / (2 * half) * (2 * half);  // first rank of the left block
    const int right = left + half;
    const int right_count = std::clamp(size - right, 0, half);
    const bool on_left = rank < right;
    const int position = rank - (on_left ? left : right);
    DoublingLevel level;
    level.first = on_left ? left : right;
    level.count = on_left ? std::min(half, size - left) : right_count;
    if (right_count > 0) {
      if (on_left) {
        if (position < right_count) level.send_to.push_back(right + position);
        level.receive_from = right + position % right_count;
        level.receive_first = right;
        level.receive_count = right_count;
      } else {
        for (int to = position; to < half; to += right_count) level.send_to.push_back(left + to);
        level.receive_from = left + position;
        level.receive_first = left;
        level.receive_count = half;
      }
    }
    levels.push_back(std::move(level));
  }
  return levels;
}

std::vector<Step> direct_all_reduce(const Place& place, std::size_t count) {
  std::vector<Step> steps;
  const std::size_t block_count = place.segment * static_cast<std::size_t>(place.size);
  overlap(blocks_of(count, block_count), 3, [&](std::size_t stage, std::size_t block) {
    const Range range = block_range(block, block_count, count);
    const Range own = slice(range, place.rank, place.size);
    if (stage == 1 && own.count > 0)
      steps.push_back({Step::Kind::kReduce, place.rank, own.begin, own.begin, own.count});
    for_peers(place, [&](int peer) {
      const Range theirs = slice(range, peer, place.size);
      if (stage == 0 && theirs.count > 0 && contributes(place, place.rank)) {
        steps.push_back({Step::Kind::kSendInput, peer, theirs.begin, theirs.begin, theirs.count});
      } else if (stage == 1 && own.count > 0) {
        steps.push_back({Step::Kind::kSendResult, peer, own.begin, own.begin, own.count});
      } else if (stage == 2 && theirs.count > 0) {
        steps.push_back({Step::Kind::kReceive, peer, theirs.begin, theirs.begin, theirs.count});
      }
    });
  });
  return steps;
}

std::vector<Step> ring_all_reduce(const Place& place, std::size_t count) {
  std::vector<Step> steps;
  const int size = place.size;
  const int next = (place.rank + 1) % size;
  const int previous = (place.rank + size - 1) % size;
  const std::size_t block_count = place.segment * static_cast<std::size_t>(size);
  // Stage s takes what the neighbour sent in its stage s - 1 and sends it on: the slice that began s ranks before.
  const auto stages = static_cast<std::size_t>(2 * size - 1);
  const auto stage_of_block = [&](std::size_t stage, std::size_t block) {
    const int hops = static_cast<int>(stage);
    const Range range = slice(block_range(block, block_count, count), (place.rank - hops % size + size) % size, size);
    if (range.count == 0) return;
    if (hops > 0) {
      const auto kind = hops < size ? Step::Kind::kAdd : Step::Kind::kReceive;
      steps.push_back({kind, previous, range.begin, range.begin, range.count});
    }
    if (hops < 2 * size - 2) {
      steps.push_back({Step::Kind::kSendResult, next, range.begin, range.begin, range.count});
    }
  };
  overlap(blocks_of(count, block_count), stages, stage_of_block, kRingLag);
  return steps;
}

std::vector<Step> direct_reduce_scatter(const Place& place, std::size_t count) {
  std::vector<Step> steps;
  overlap(blocks_of(count, place.segment), 2, [&](std::size_t stage, std::size_t block) {
    const Range range = block_range(block, place.segment, count);
    if (stage == 1) {
      const std::size_t own = static_cast<std::size_t>(place.rank) * count + range.begin;
      steps.push_back({Step::Kind::kReduce, place.rank, own, range.begin, range.count});
    }
    for_peers(place, [&](int peer) {
      const std::size_t theirs = static_cast<std::size_t>(peer) * count + range.begin;
      if (stage == 0 && contributes(place, place.rank)) {
        steps.push_back({Step::Kind::kSendInput, peer, theirs, 0, range.count});
      } else if (stage == 0) {
        steps.push_back({Step::Kind::kSendResult, peer, 0, 0, 0});
      } else if (!contributes(place, peer)) {
        steps.push_back({Step::Kind::kReceive, peer, 0, 0, 0});
      }
    });
  });
  return steps;
}

std::vector<Step> direct_all_gather(const Place& place, std::size_t count) {
  std::vector<Step> steps;
  overlap(blocks_of(count, place.segment), 2, [&](std::size_t stage, std::size_t block) {
    const Range range = block_range(block, place.segment, count);
    const auto row = [&](int rank) { return static_cast<std::size_t>(rank) * count + range.begin; };
    for_peers(place, [&](int peer) {
      if (stage == 0) steps.push_back({Step::Kind::kSendResult, peer, 0, row(place.rank), range.count});
      if (stage == 1) steps.push_back({Step::Kind::kReceive, peer, 0, row(peer), range.count});
    });
  });
  return steps;
}

std::vector<Step> tree_broadcast(const Place& place, int root, std::size_t count) {
  const int size = place.size;
  const int number = (place.rank - root + size) % size;  // in the tree; the root is 0
  const auto rank_of = [&](int node) { return (node + root) % size; };
  int parent = -1;
  std::vector<int> children;  // nearest to the leaves last: the longest way begins first
  int reach = 1;
  while (reach < size) reach *= 2;
  for (int bit = 1; bit < reach; bit *= 2) {
    if (number & bit) {
      parent = rank_of(number - bit);
      break;
    }
    if (number + bit < size) children.insert(children.begin(), rank_of(number + bit));
  }
  std::vector<Step> steps;
  overlap(blocks_of(count, place.segment), 2, [&](std::size_t stage, std::size_t block) {
    const Range range = block_range(block, place.segment, count);
    if (stage == 0) {
      if (parent >= 0) {
        steps.push_back({Step::Kind::kReceive, parent, 0, range.begin, range.count});
        steps.push_back({Step::Kind::kSendResult, parent, 0, 0, 0});
      }
      for (const int child : children) steps.push_back({Step::Kind::kSendResult, child, 0, range.begin, range.count});
    } else {
      for (const int child : children) steps.push_back({Step::Kind::kReceive, child, 0, 0, 0});
    }
  });
  return steps;
}

}  // namespace troupe::collectives::detail
