#include <troupe/run/run_topology.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include <troupe/actors/roles/metrics_actor.hpp>
#include <troupe/actors/roles/replica_topology.hpp>
#include <troupe/run/agent_topology.hpp>
#include <troupe/run/no_metrics.hpp>

namespace troupe::actors {
namespace {

/// What the part of the run is called that roles of the user's own make up, when there are others.
constexpr const char* kOwnPart = "roles";

/// The groups of a run, with what they train.
using Groups = std::vector<std::pair<const ReplicaRun*, ReplicaModel>>;

RoleSpec metrics_role(const TrainOptions& options, const Groups& groups, MetricSink& sink, double wall_s) {
  MetricsActorOptions metrics{.sink = &sink, .period = from_seconds(options.metrics.every_s), .wall_s = wall_s};
  for (const AgentOptions& agent : options.agents) {
    const std::string learner = role_of(agent, kLearnerRole);
    metrics.agents.push_back({.name = agent.name,
                              .actor_role = role_of(agent, kActorRole),
                              .learner_role = learner,
                              .actors = agent.actors.count,
                              .max_env_steps = agent.max_env_steps,
                              .episodes_port = metrics_port(agent, "episodes"),
                              .steps_port = metrics_port(agent, "steps")});
    metrics.evaluators[role_of(agent, kEvaluatorRole)] = learner;
    metrics.kept_roles.insert({learner, role_of(agent, kReplayRole)});
    metrics.group_roles.insert(learner);
  }
  for (const auto& [run, model] : groups) {
    const std::string& name = run->group.name;
    metrics.kept_roles.insert(name);
    metrics.group_roles.insert(name);
    metrics.replica_roles.push_back(name);
    if (model.make_evaluation) metrics.evaluators[evaluator_name(run->group)] = name;
  }
  for (const ConfiguredRole& role : options.roles) {
    if (role.spec.restart.from == RestartFrom::kLastCut) metrics.kept_roles.insert(role.spec.name);
  }
  RoleSpec spec = MetricsActor::spec(kMetricsRole, metrics);
  spec.kept_over_nodes = true;
  return spec;
}

/// Roles, channels and types of the user's own.
void add_own(Topology& topology, const TrainOptions& options) {
  const bool alone = options.agents.empty() && options.replicas.empty();
  for (const ConfiguredRole& role : options.roles) {
    RoleSpec& spec = topology.roles.emplace_back(role.spec);
    const RestartPolicy own = spec.restart;
    spec.restart = restart_policy(options.supervisor);
    spec.restart.from = own.from;
    spec.restart.quarantine = own.quarantine;
    if (!alone) spec.part = kOwnPart;
  }
  topology.channels.insert(topology.channels.end(), options.channels.begin(), options.channels.end());
  for (const messages::MessageType& type : options.messages) {
    const auto names_it = [&](const Port& port) { return port.type == type.name || port.answer == type.name; };
    const bool named = std::ranges::any_of(topology.roles, [&](const RoleSpec& role) {
      return std::ranges::any_of(role.inlets, names_it) || std::ranges::any_of(role.outlets, names_it);
    });
    if (named) topology.messages.push_back(type);
  }
}

/// mistakes() with what they are about in the configuration.
Status check_own(const Topology& topology, const TrainOptions& options) {
  const std::size_t first = topology.channels.size() - options.channels.size();
  const auto is_own = [&](const std::string& role) {
    return std::ranges::any_of(options.roles, [&](const ConfiguredRole& own) { return own.spec.name == role; });
  };
  std::vector<std::string> lines;
  for (const TopologyMistake& mistake : mistakes(topology)) {
    std::string about = "topology";
    if (mistake.channel && *mistake.channel >= first) {
      about = fmt::format("channels[{}]", *mistake.channel - first);
    } else if (is_own(mistake.role)) {
      about = "roles." + mistake.role;
    }
    lines.push_back(fmt::format("{}: {}", about, mistake.what));
  }
  if (lines.empty()) return check_message_types(topology);
  return Error{Code::kInvalidArgument, fmt::format("{}", fmt::join(lines, "\n"))};
}

}  // namespace

Result<Topology> run_topology(const TrainOptions& options, RunSinks sinks, double wall_s) {
  Topology topology;
  topology.reports = PortName{kMetricsRole, "reports"};
  for (const AgentOptions& agent : options.agents) TROUPE_TRY(add_agent(topology, options, agent, kMetricsRole));
  Groups groups;
  for (const ReplicaRun& run : options.replicas) {
    TROUPE_ASSIGN(ReplicaModel model, model_of(run));
    groups.emplace_back(&run, std::move(model));
  }
  topology.roles.push_back(metrics_role(options, groups, sinks.metrics, wall_s));
  for (const auto& [run, model] : groups) {
    TROUPE_TRY(add_replica_group(topology, run->group, model, sinks.pictures, options.begin_with));
  }
  if (options.roles.empty() && options.channels.empty()) return topology;
  add_own(topology, options);
  TROUPE_TRY(check_own(topology, options));
  return topology;
}

Result<std::vector<std::string>> elastic_roles(const TrainOptions& options) {
  NoMetrics sink;
  TROUPE_ASSIGN(const Topology topology, run_topology(options, {sink}, 0));
  std::vector<std::string> names;
  for (const RoleSpec& role : topology.roles) {
    if (role.elastic) names.push_back(role.name);
  }
  return names;
}

}  // namespace troupe::actors
