#include <troupe/learner/engine/cuda/node_order.hpp>

#include <algorithm>

namespace troupe::learner {

namespace {

bool overlap(const std::vector<MemoryRange>& some, const std::vector<MemoryRange>& others) {
  return std::ranges::any_of(some, [&](const MemoryRange& one) {
    return std::ranges::any_of(others, [&](const MemoryRange& other) { return one.overlaps(other); });
  });
}

bool conflict(const NodeMemory& one, const NodeMemory& other) {
  return overlap(one.writes, other.writes) || overlap(one.writes, other.reads) || overlap(one.reads, other.writes);
}

bool apart_or_alike(const std::vector<MemoryRange>& some, const std::vector<MemoryRange>& others) {
  return std::ranges::all_of(some, [&](const MemoryRange& one) {
    return std::ranges::all_of(
        others, [&](const MemoryRange& other) { return one.begin == other.begin || !one.overlaps(other); });
  });
}

/// A workspace, and the node that used it last.
struct Workspace {
  bool used = false;
  std::size_t by = 0;
};

}  // namespace

bool in_step(const NodeMemory& one, const NodeMemory& other) {
  return apart_or_alike(one.writes, other.writes) && apart_or_alike(one.writes, other.reads) &&
         apart_or_alike(one.reads, other.writes);
}

std::vector<NodeOrder> order_nodes(std::span<const NodeMemory> nodes, std::size_t workspaces) {
  std::vector<NodeOrder> order(nodes.size());
  std::vector<std::vector<bool>> before(nodes.size());  // all that a node waits for, also by others
  std::vector<Workspace> spaces(std::max<std::size_t>(workspaces, 1));
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    before[i].resize(i, false);
    const auto wait_for = [&](std::size_t earlier) {
      if (before[i][earlier]) return;
      order[i].after.push_back(static_cast<std::uint32_t>(earlier));
      before[i][earlier] = true;
      for (std::size_t each = 0; each < earlier; ++each) {
        if (before[earlier][each]) before[i][each] = true;
      }
    };
    for (std::size_t earlier = i; earlier-- > 0;) {
      if (!before[i][earlier] && conflict(nodes[earlier], nodes[i])) wait_for(earlier);
    }
    if (!nodes[i].workspace) continue;
    const auto cost = [&](const Workspace& space) {  // the least is best
      if (!space.used) return std::size_t{1};
      return before[i][space.by] ? std::size_t{0} : 2 + space.by;
    };
    const auto best = std::ranges::min_element(spaces, {}, cost);
    if (best->used) wait_for(best->by);
    *best = {true, i};
    order[i].workspace = static_cast<std::size_t>(best - spaces.begin());
  }
  return order;
}

}  // namespace troupe::learner
