#pragma once
// What each node of a cluster needs of the place that it runs in, so that whoever gives out places (Ray, say) can
// reserve it: `troupe plan`. Values only.
#include <cstdint>
#include <vector>

#include <troupe/apps/cluster/cluster_spec.hpp>
#include <troupe/run/role_counts.hpp>

namespace troupe::apps {

struct NodeNeeds {
  std::string role_nodes;  ///< its key in [placement] or in `nodes` of a hosts file: "actors"; empty: the chief
  /// A processor for each thread that has work all the time, and at least one.
  std::int64_t cpus = 1;
  /// As many as make the devices "cuda:0" .. "cuda:N" that its instances name; none for "auto", which takes what it is
  /// given.
  std::int64_t gpus = 0;
};

/// Of the cluster's nodes, in their order; `roles` are those that it was placed with.
std::vector<NodeNeeds> needs_of(const ClusterSpec& cluster, const std::vector<actors::RoleCount>& roles);

}  // namespace troupe::apps
