#include <troupe/run/role_counts.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include <troupe/actors/roles/replica_topology.hpp>

namespace troupe::actors {
namespace {

/// Whether there is something to judge. One that cannot be made, or is not known yet, is taken for a model that has it.
bool has_evaluator(const ReplicaRun& run) {
  if (!run.make_model) return true;
  const auto model = model_of(run);
  return !model.ok() || model->make_evaluation != nullptr;
}

/// What a replica group's own role needs: an instance is one replica, or runs all of them.
void add_needs(const ReplicaGroupOptions& group, RoleCount& role) {
  const bool each = instances(group) > 1 || group.count == 1;
  const std::int64_t replicas = each ? 1 : group.count;
  const bool computes = std::ranges::any_of(group.device, [](const std::string& device) {
    return !device.starts_with("cuda:") && !device.starts_with("tpu:");  // those are only fed
  });
  role.threads = replicas * group.devices * (computes ? group.threads : 1);
  if (!each) {
    role.devices = {group.device};
    role.devices[0].resize(std::min(group.device.size(), static_cast<std::size_t>(group.count)));
  } else {
    for (const std::string& device : group.device) role.devices.push_back({device});
  }
}

void add_group(const ReplicaRun& run, std::vector<RoleCount>& counts) {
  const ReplicaGroupOptions& group = run.group;
  const auto add = [&](const std::string& role, std::int64_t count, const char* key, std::int64_t nodes,
                       const char* task) {
    counts.push_back(
        {role, count, key == nullptr ? "" : fmt::format("replicas.{}.{}", group.name, key), role, nodes, task});
  };
  add(group.name, instances(group), "nodes", run.nodes, "worker");
  add_needs(group, counts.back());
  if (has_parameter_server(group)) add(parameter_server_name(group), group.ps_shards, "ps_nodes", run.ps_nodes, "ps");
  if (is_split_gan(group)) {
    add(discriminator_name(group), group.discriminators, "discriminator_nodes", run.discriminator_nodes, "worker");
    add_needs(group, counts.back());
  }
  if (has_evaluator(run)) add(evaluator_name(group), 1, nullptr, 0, "evaluator");
}

void add_agent(const AgentOptions& agent, std::vector<RoleCount>& counts) {
  const PlacementOptions& p = agent.placement;
  const auto add = [&](const char* role, std::int64_t count, const char* node, std::int64_t nodes, const char* task) {
    counts.push_back({role_of(agent, role), count, fmt::format("{}placement.{}.nodes", section_prefix(agent), node),
                      role_of(agent, node), nodes, task});
  };
  if (!is_held(agent.replay)) add(kReplayRole, agent.replay.shards, "replay", p.replay, "ps");
  const std::int64_t learners = learner_instances(agent);
  add(kLearnerRole, learners, "learner", p.learner, learners > 1 ? "worker" : "");
  add_needs(agent.learner, counts.back());
  if (has_parameter_server(agent.learner)) {
    ReplicaGroupOptions learner = agent.learner;
    learner.name = role_of(agent, kLearnerRole);
    const std::string server = parameter_server_name(learner);
    counts.push_back(
        {server, learner.ps_shards, section_prefix(agent) + "placement.learner_ps.nodes", server, p.learner_ps, "ps"});
  }
  add(kParametersRole, 1, "parameters", p.parameters, "ps");
  add(kEvaluatorRole, 1, "evaluator", p.evaluator, "evaluator");
  if (agent.actors.inference == "server") {
    add(kInferenceRole, agent.inference.count, "inference", p.inference, "ps");
    counts.back().threads = 1;
    for (const std::string& device : agent.inference.device) counts.back().devices.push_back({device});
  }
  add(kActorRole, agent.actors.count, "actors", p.actors, "worker");
  counts.back().fills = true;
  counts.back().count_key = section_prefix(agent) + "actors.count";
  counts.back().threads = agent.actors.threads;
}

}  // namespace

std::vector<RoleCount> role_counts(const TrainOptions& options) {
  std::vector<RoleCount> counts;
  for (const ReplicaRun& run : options.replicas) add_group(run, counts);
  for (const ConfiguredRole& role : options.roles) {
    const std::string& name = role.spec.name;
    counts.push_back({name, role.spec.count, fmt::format("placement.{}.nodes", name), name, role.nodes, "worker"});
  }
  for (const AgentOptions& agent : options.agents) add_agent(agent, counts);
  return counts;
}

}  // namespace troupe::actors
