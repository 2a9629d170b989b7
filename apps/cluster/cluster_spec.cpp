#include <troupe/apps/cluster/cluster_spec.hpp>

#include <algorithm>
#include <cctype>

#include <fmt/core.h>

#include <troupe/actors/roles/replica_topology.hpp>
#include <troupe/run/d4pg_topology.hpp>

namespace troupe::apps {
namespace {

bool is_alnum(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

}  // namespace

const NodeSpec* ClusterSpec::find(std::string_view node) const {
  const auto found = std::find_if(nodes.begin(), nodes.end(), [&](const NodeSpec& n) { return n.name == node; });
  return found == nodes.end() ? nullptr : &*found;
}

std::vector<RoleCount> role_counts(const actors::TrainOptions& options) {
  const actors::PlacementOptions& p = options.placement;
  std::vector<RoleCount> counts;
  for (const actors::ReplicaRun& run : options.replicas) {
    const actors::ReplicaGroupOptions& group = run.group;
    counts.push_back(
        {group.name, actors::instances(group), fmt::format("replicas.{}.nodes", group.name), group.name, run.nodes});
    if (actors::has_parameter_server(group)) {
      const std::string servers = actors::parameter_server_name(group);
      counts.push_back(
          {servers, group.ps_shards, fmt::format("replicas.{}.ps_nodes", group.name), servers, run.ps_nodes});
    }
    if (actors::is_split_gan(group)) {
      const std::string discriminators = actors::discriminator_name(group);
      counts.push_back({discriminators, group.discriminators,
                        fmt::format("replicas.{}.discriminator_nodes", group.name), discriminators,
                        run.discriminator_nodes});
    }
    counts.push_back({actors::evaluator_name(group), 1, "", actors::evaluator_name(group), 0});
  }
  for (const actors::ConfiguredRole& role : options.roles) {
    const std::string& name = role.spec.name;
    counts.push_back({name, role.spec.count, fmt::format("placement.{}.nodes", name), name, role.nodes});
  }
  if (!actors::has_d4pg(options)) return counts;
  if (!actors::replay_on_gpu(options)) {
    counts.push_back({actors::kReplayRole, options.replay.shards, "placement.replay.nodes", "replay", p.replay});
  }
  counts.push_back(
      {actors::kLearnerRole, actors::learner_instances(options), "placement.learner.nodes", "learner", p.learner});
  counts.push_back({actors::kParametersRole, 1, "placement.parameters.nodes", "parameters", p.parameters});
  counts.push_back({actors::kEvaluatorRole, 1, "placement.evaluator.nodes", "evaluator", p.evaluator});
  if (options.actors.inference == "server") {
    counts.push_back(
        {actors::kInferenceRole, options.inference.count, "placement.inference.nodes", "inference", p.inference});
  }
  counts.push_back({actors::kActorRole, options.actors.count, "placement.actors.nodes", "actors", p.actors});
  return counts;
}

bool is_host(std::string_view text) {
  const bool ip_v6 = std::count(text.begin(), text.end(), ':') >= 2;
  return !text.empty() && text.size() <= 253 && (is_alnum(text[0]) || text[0] == ':') &&
         std::all_of(text.begin(), text.end(), [&](char c) {
           return is_alnum(c) || c == '-' || c == '.' || c == '_' || (ip_v6 && (c == ':' || c == '%'));
         });
}

}  // namespace troupe::apps
