#pragma once
// The whole topology of a run as its options ask for it: D4PG when there is an environment, every replica group beside
// it, and the metrics role that hears of all of them. What `troupe train` runs and `troupe graph` draws.
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
/// starts of the run took. Errors: kInvalidArgument or those of the parts, naming the option.
Result<Topology> run_topology(const TrainOptions& options, const envs::EnvSpec& env, RunSinks sinks, double wall_s);

/// What the environment of the run is like; nothing when it has none. Errors: those of envs::make_environment().
Result<envs::EnvSpec> run_environment(const TrainOptions& options);

}  // namespace troupe::actors
