#pragma once
// Which node hosts which instances: data beside the topology, so that the same topology runs anywhere. Made by
// apps/cluster from a configuration; used by the chief.
#include <cstdint>
#include <string>
#include <vector>

#include <troupe/actors/runtime/topology.hpp>
#include <troupe/core/error.hpp>

namespace troupe::actors {

struct PlacedNode {
  std::string name;
  struct Share {
    std::string role;
    std::vector<std::uint32_t> indices;
  };
  std::vector<Share> shares;
};

/// Places everything on one node.
std::vector<PlacedNode> all_on(const std::string& node, const Topology& topology);

/// Checks that every instance of every role is on exactly one node, and nothing else is placed. Errors:
/// kInvalidArgument, one finding a line, each naming instance and node.
Status check(const Topology& topology, const std::vector<PlacedNode>& placement);

}  // namespace troupe::actors
