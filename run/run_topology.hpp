#pragma once
// The whole topology of a run as its options ask for it: its agents, the replica groups beside them, the roles and
// channels of the user's own, and the metrics role that hears of all of them. What `troupe train` runs and
// `troupe graph` draws.
#include <string>
#include <vector>

#include <troupe/actors/runtime/topology.hpp>
#include <troupe/core/error.hpp>
#include <troupe/core/metrics.hpp>
#include <troupe/core/picture.hpp>
#include <troupe/run/train_options.hpp>

namespace troupe::actors {

/// Where a run's rows and pictures go; both outlive the topology's roles.
struct RunSinks {
  MetricSink& metrics;
  PictureSink* pictures = nullptr;  ///< null: nobody wants them
};

/// The role that takes the reports of all others.
inline constexpr const char* kMetricsRole = "metrics";

/// wall_s: seconds that earlier starts of the run took. The whole is checked, with the roles and channels of the user's
/// own. Errors: kInvalidArgument or those of the parts, one line a mistake, each beginning with the option:
/// "channels[1]: channel thermometer.celsius -> display.kelvin: role "display" has no inlet "kelvin"".
Result<Topology> run_topology(const TrainOptions& options, RunSinks sinks, double wall_s);

/// The roles whose further instances may be hosted by nodes that join the run (RoleSpec::elastic). Errors: as above.
Result<std::vector<std::string>> elastic_roles(const TrainOptions& options);

}  // namespace troupe::actors
