#include <troupe/run/run_topology.hpp>

#include <utility>

#include <troupe/actors/roles/replica_topology.hpp>
#include <troupe/run/d4pg_topology.hpp>
#include <troupe/run/shipped_models.hpp>

namespace troupe::actors {

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
  return topology;
}

Result<envs::EnvSpec> run_environment(const TrainOptions& options) {
  if (!has_d4pg(options)) return envs::EnvSpec{};
  TROUPE_ASSIGN(const auto environment, envs::make_environment(options.env, options.seed));
  return environment->spec();
}

}  // namespace troupe::actors
