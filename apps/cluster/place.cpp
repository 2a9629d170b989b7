#include <troupe/apps/cluster/place.hpp>

#include <algorithm>
#include <utility>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <troupe/run/run_topology.hpp>

namespace troupe::apps {
std::vector<std::vector<std::int64_t>> deal(std::int64_t count, std::size_t hands) {
  std::vector<std::vector<std::int64_t>> dealt(hands);
  for (std::int64_t i = 0; i < count; ++i) dealt[static_cast<std::size_t>(i) % hands].push_back(i);
  return dealt;
}

void add_role(NodeSpec& node, const std::string& role, const std::vector<std::int64_t>& instances) {
  if (instances.empty()) return;
  auto at = std::find_if(node.roles.begin(), node.roles.end(), [&](const HostedRole& r) { return r.role >= role; });
  if (at == node.roles.end() || at->role != role) at = node.roles.insert(at, HostedRole{role, {}});
  at->instances.insert(at->instances.end(), instances.begin(), instances.end());
  std::sort(at->instances.begin(), at->instances.end());
}

Result<ClusterSpec> place(const actors::TrainOptions& options, std::string run) {
  return place(actors::role_counts(options), std::move(run));
}

Result<ClusterSpec> place(const std::vector<actors::RoleCount>& roles, std::string run) {
  ClusterSpec cluster{std::move(run), {}};
  NodeSpec chief;
  chief.name = kChiefName;
  add_role(chief, actors::kMetricsRole, {0});
  for (const actors::RoleCount& role : roles) {
    if (role.nodes > role.count) {
      return Error{Code::kInvalidArgument, fmt::format("{} is {}, expected at most {}, the number of instances of "
                                                       "role {}",
                                                       role.key, role.nodes, role.count, role.role)};
    }
    if (role.nodes == 0) {
      add_role(chief, role.role, deal(role.count, 1)[0]);
      continue;
    }
    const auto shares = deal(role.count, static_cast<std::size_t>(role.nodes));
    for (std::size_t i = 0; i < shares.size(); ++i) {
      NodeSpec node;
      node.name = shares.size() == 1 ? role.node : fmt::format("{}-{}", role.node, i);
      add_role(node, role.role, shares[i]);
      cluster.nodes.push_back(std::move(node));
    }
  }
  cluster.nodes.insert(cluster.nodes.begin(), std::move(chief));
  return cluster;
}

Result<ClusterSpec> place_on(const actors::TrainOptions& options, std::string run,
                             const std::vector<transport::Address>& places, const std::string& whose) {
  std::vector<actors::RoleCount> roles = actors::role_counts(options);
  std::int64_t others = 1;
  std::vector<std::string> needs = {"chief 1"};
  std::vector<actors::RoleCount*> fill;
  for (actors::RoleCount& role : roles) {
    if (role.fills) {
      fill.push_back(&role);
      continue;
    }
    if (role.nodes == 0) continue;
    others += role.nodes;
    needs.push_back(fmt::format("{} {}", role.node, role.nodes));
  }
  const auto range = [](std::int64_t least, std::int64_t most) {
    return least == most ? std::to_string(least) : fmt::format("{} .. {}", least, most);
  };
  std::int64_t least = 0, most = 0;
  std::vector<std::string> counts;
  for (actors::RoleCount* const role : fill) {
    role->nodes = std::min<std::int64_t>(role->nodes, 1);  // 0: with the chief
    const std::int64_t room = role->nodes * role->count;
    least += role->nodes;
    most += room;
    needs.push_back(fmt::format("{} {}", role->node, range(role->nodes, room)));
    counts.push_back(fmt::format("{} = {}", role->count_key, role->count));
  }
  const auto got = static_cast<std::int64_t>(places.size());
  if (got < others + least || got > others + most) {
    return Error{Code::kInvalidArgument,
                 fmt::format("got {} {}, but the run needs {}: {}. Change their number, {} or [placement]", got, whose,
                             range(others + least, others + most), fmt::join(needs, ", "), fmt::join(counts, ", "))};
  }
  for (std::int64_t left = got - others - least; left > 0;) {  // in turns, as far as each has instances
    for (actors::RoleCount* const role : fill) {
      if (left == 0 || role->nodes == 0 || role->nodes == role->count) continue;
      ++role->nodes;
      --left;
    }
  }
  TROUPE_ASSIGN(ClusterSpec cluster, place(roles, std::move(run)));
  for (std::size_t i = 0; i < places.size(); ++i) cluster.nodes[i].address = places[i];
  return cluster;
}

}  // namespace troupe::apps
