#include <troupe/apps/cluster/node_needs.hpp>

#include <algorithm>

#include <troupe/learner/engine/device.hpp>

namespace troupe::apps {
namespace {

void add_needs(const actors::RoleCount& role, std::int64_t instance, NodeNeeds& needs) {
  needs.cpus += role.threads;
  if (role.devices.empty()) return;
  for (const std::string& text : role.devices[static_cast<std::size_t>(instance) % role.devices.size()]) {
    const auto device = learner::parse_device(text);
    if (device.ok() && device->is_gpu()) needs.gpus = std::max<std::int64_t>(needs.gpus, device->index + 1);
  }
}

}  // namespace

std::vector<NodeNeeds> needs_of(const ClusterSpec& cluster, const std::vector<actors::RoleCount>& roles) {
  std::vector<NodeNeeds> all;
  for (const NodeSpec& node : cluster.nodes) {
    NodeNeeds& needs = all.emplace_back(NodeNeeds{.cpus = 0});
    for (const HostedRole& hosted : node.roles) {
      const auto role = std::ranges::find(roles, hosted.role, &actors::RoleCount::role);
      if (role == roles.end()) continue;  // metrics, which is always the chief's
      if (node.name != kChiefName) needs.role_nodes = role->node;
      for (const std::int64_t instance : hosted.instances) add_needs(*role, instance, needs);
    }
    needs.cpus = std::max<std::int64_t>(needs.cpus, 1);
  }
  return all;
}

}  // namespace troupe::apps
