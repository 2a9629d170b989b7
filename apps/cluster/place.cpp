#include <troupe/apps/cluster/place.hpp>

#include <algorithm>
#include <utility>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <troupe/run/d4pg_topology.hpp>

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
  if (options.deterministic) {
    return Error{Code::kInvalidArgument, "deterministic = true is for a run in one process, not for several nodes"};
  }
  ClusterSpec cluster{std::move(run), {}};
  NodeSpec chief;
  chief.name = kChiefName;
  add_role(chief, actors::kMetricsRole, {0});
  for (const RoleCount& role : role_counts(options)) {
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
  std::int64_t others = 1;
  std::vector<std::string> needs = {"chief 1"};
  for (const RoleCount& role : role_counts(options)) {
    if (role.role == actors::kActorRole || role.nodes == 0) continue;
    others += role.nodes;
    needs.push_back(fmt::format("{} {}", role.node, role.nodes));
  }
  const auto range = [](std::int64_t least, std::int64_t most) {
    return least == most ? std::to_string(least) : fmt::format("{} .. {}", least, most);
  };
  const bool acting = actors::has_d4pg(options) && options.placement.actors > 0;
  const std::int64_t least_actors = acting ? 1 : 0;
  const std::int64_t most_actors = acting ? options.actors.count : 0;
  needs.push_back("actors " + range(least_actors, most_actors));
  const auto got = static_cast<std::int64_t>(places.size());
  if (got < others + least_actors || got > others + most_actors) {
    return Error{
        Code::kInvalidArgument,
        fmt::format("got {} {}, but the run needs {}: {}. Change their number, actors.count = {} or [placement]", got,
                    whose, range(others + least_actors, others + most_actors), fmt::join(needs, ", "),
                    options.actors.count)};
  }
  actors::TrainOptions filled = options;
  if (most_actors > 0) filled.placement.actors = got - others;
  TROUPE_ASSIGN(ClusterSpec cluster, place(filled, std::move(run)));
  for (std::size_t i = 0; i < places.size(); ++i) cluster.nodes[i].address = places[i];
  return cluster;
}

}  // namespace troupe::apps
