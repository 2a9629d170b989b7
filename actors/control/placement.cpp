#include <troupe/actors/control/placement.hpp>

#include <fmt/format.h>

#include <map>
#include <set>

namespace troupe::actors {

std::vector<PlacedNode> all_on(const std::string& node, const Topology& topology) {
  PlacedNode placed{node, {}};
  for (const RoleSpec& role : topology.roles) {
    PlacedNode::Share& share = placed.shares.emplace_back();
    share.role = role.name;
    for (std::int64_t i = 0; i < role.count; ++i) share.indices.push_back(static_cast<std::uint32_t>(i));
  }
  return {std::move(placed)};
}

Status check(const Topology& topology, const std::vector<PlacedNode>& placement) {
  std::string findings;
  std::map<std::pair<std::string, std::uint32_t>, std::string> hosts;
  std::set<std::string> names;
  for (const PlacedNode& node : placement) {
    if (!names.insert(node.name).second) findings += fmt::format("placement: two nodes are named {}\n", node.name);
    for (const PlacedNode::Share& share : node.shares) {
      const RoleSpec* const role = topology.find(share.role);
      if (role == nullptr) {
        findings +=
            fmt::format("placement: node {} hosts {}, which is no role of this topology\n", node.name, share.role);
        continue;
      }
      for (const std::uint32_t index : share.indices) {
        if (index >= role->count) {
          findings += fmt::format("placement: node {} hosts {}-{}, expected indices below {}\n", node.name, share.role,
                                  index, role->count);
        } else if (const auto [at, fresh] = hosts.emplace(std::pair(share.role, index), node.name); !fresh) {
          findings +=
              fmt::format("placement: {}-{} is on node {} and on node {}\n", share.role, index, at->second, node.name);
        }
      }
    }
  }
  for (const RoleSpec& role : topology.roles) {
    for (std::uint32_t index = 0; index < role.count; ++index) {
      if (!hosts.contains({role.name, index}))
        findings += fmt::format("placement: {}-{} is on no node\n", role.name, index);
    }
  }
  if (findings.empty()) return {};
  findings.pop_back();
  return Error{Code::kInvalidArgument, findings};
}

}  // namespace troupe::actors
