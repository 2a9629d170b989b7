#pragma once
// What of a step on a GPU must wait for what, by the memory that its nodes touch: branches of a graph (targets beside
// the online network, one loss beside the other) run at the same time, since a kernel of a small network fills a
// fraction of the GPU and mostly waits for memory. The plan gives nodes in an order; of it only what touches the same
// memory is kept. Bits do not depend on it.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace troupe::learner {

struct MemoryRange {
  const std::byte* begin = nullptr;
  std::size_t bytes = 0;
  bool overlaps(const MemoryRange& other) const {
    return bytes > 0 && other.bytes > 0 && begin < other.begin + other.bytes && other.begin < begin + bytes;
  }
};

struct NodeMemory {
  std::vector<MemoryRange> reads, writes;
  bool workspace = false;  ///< needs memory that nothing else uses meanwhile
};

/// Whether what one writes and the other one touches begins at the same address: for nodes that work element by element
/// each element then depends on itself alone, so a thread can do both for it.
bool in_step(const NodeMemory& one, const NodeMemory& other);

struct NodeOrder {
  std::vector<std::uint32_t> after;  ///< earlier nodes to wait for, less those for whom others of them wait
  std::size_t workspace = 0;         ///< which one, below `workspaces`
};

/// An order in which every node sees what it would if all ran one after the other. Nodes share `workspaces` workspaces,
/// at least one: each takes that of a node that it waits for anyway, else a new one, else the one longest unused.
std::vector<NodeOrder> order_nodes(std::span<const NodeMemory> nodes, std::size_t workspaces);

}  // namespace troupe::learner
