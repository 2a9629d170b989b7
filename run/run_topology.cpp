#include <troupe/run/run_topology.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include <troupe/actors/roles/replica_topology.hpp>
#include <troupe/run/d4pg_topology.hpp>
#include <troupe/run/no_metrics.hpp>
#include <troupe/run/shipped_models.hpp>

namespace troupe::actors {
namespace {

/// What the part of the run is called that roles of the user's own make up, when there are others.
constexpr const char* kOwnPart = "roles";

/// Roles, channels and types of the user's own.
void add_own(Topology& topology, const TrainOptions& options) {
  const bool alone = options.env.empty() && options.replicas.empty();
  for (const ConfiguredRole& role : options.roles) {
    RoleSpec& spec = topology.roles.emplace_back(role.spec);
    const RestartPolicy own = spec.restart;
    spec.restart = restart_policy(options);
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

Result<Topology> run_topology(const TrainOptions& options, const envs::EnvSpec& env, RunSinks sinks, double wall_s) {
  Topology topology;
  if (!has_d4pg(options)) {
    topology.roles = {metrics_role(options, sinks.metrics, wall_s)};
    topology.reports = PortName{kMetricsRole, "reports"};
  } else {
    TROUPE_ASSIGN(topology, d4pg_topology(options, env, sinks.metrics, wall_s));
  }
  for (const ReplicaRun& run : options.replicas) {
    TROUPE_ASSIGN(const ReplicaModel model, shipped_model(run.model, run.group));
    TROUPE_TRY(add_replica_group(topology, run.group, model, sinks.pictures));
  }
  if (options.roles.empty() && options.channels.empty()) return topology;
  add_own(topology, options);
  TROUPE_TRY(check_own(topology, options));
  return topology;
}

Result<std::vector<std::string>> elastic_roles(const TrainOptions& options) {
  NoMetrics sink;
  TROUPE_ASSIGN(const envs::EnvSpec environment, run_environment(options));
  TROUPE_ASSIGN(const Topology topology, run_topology(options, environment, {sink}, 0));
  std::vector<std::string> names;
  for (const RoleSpec& role : topology.roles) {
    if (role.elastic) names.push_back(role.name);
  }
  return names;
}

Result<envs::EnvSpec> run_environment(const TrainOptions& options) {
  if (!has_d4pg(options)) return envs::EnvSpec{};
  TROUPE_ASSIGN(const auto environment, options.make_environment(options.seed));
  return environment->spec();
}

}  // namespace troupe::actors
