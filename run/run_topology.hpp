#pragma once
// The whole topology of a run as its options ask for it: D4PG when there is an environment, every replica group beside
// it, the roles and channels of the user's own, and the metrics role that hears of all of them. What `troupe train`
// runs and `troupe graph` draws.
#include <string>
#include <vector>

#include <troupe/actors/runtime/topology.hpp>
#include <troupe/core/error.hpp>
#include <troupe/core/metrics.hpp>
#include <troupe/core/picture.hpp>
#include <troupe/envs/environment.hpp>
#include <troupe/run/train_options.hpp>

namespace troupe::actors {

/// Where a run's rows and pictures go; both outlive the topology's roles.
struct RunSinks {
  MetricSink& metrics;
  PictureSink* pictures = nullptr;  ///< null: nobody wants them
};

/// env: of options.env; unused when that is empty. wall_s: seconds that earlier
/// starts of the run took. What roles and channels of the user's own make of it is checked as a whole.
/// Errors: kInvalidArgument or those of the parts, one line a mistake, each beginning with the option: "channels[1]:
/// channel thermometer.celsius -> display.kelvin: role "display" has no inlet "kelvin"".
Result<Topology> run_topology(const TrainOptions& options, const envs::EnvSpec& env, RunSinks sinks, double wall_s);

/// The roles of the run of which nodes that join it may host further instances (RoleSpec::elastic). Errors: as above.
Result<std::vector<std::string>> elastic_roles(const TrainOptions& options);

/// What the environment of the run is like; nothing when it has none. Errors: those of options.make_environment.
Result<envs::EnvSpec> run_environment(const TrainOptions& options);

}  // namespace troupe::actors
