#pragma once
// Checks a configuration before a run begins or goes on, for everything that train_schema.hpp's ranges cannot say.
// Commands that make or change a run ask here first, so that nothing is begun that cannot go on.
#include <string>
#include <string_view>

#include <troupe/core/config.hpp>
#include <troupe/core/error.hpp>
#include <troupe/run/train_options.hpp>

namespace troupe::apps {

/// Where a run is to take place: what it may do depends on it.
enum class RunKind {
  kOneProcess,
  kProcesses,  ///< several nodes, all on this host
  kHosts,      ///< several nodes; this host may have none of them, nor their data
};

/// Checks that such a run can begin (run/check_run.hpp), and that no key of it is idle (idle_keys.hpp). It looks for
/// data and builds graphs, so it may take a second. Errors: kInvalidArgument, one line a mistake, each beginning with
/// its place, as of to_train_options().
Status check_begin(const Config& config, const actors::TrainOptions& options, RunKind kind);

/// Checks that a run which was recorded with one configuration can go on with another: the keys that its checkpoints
/// depend on (ConfigKey::fixed) are equal. Errors: kInvalidArgument, one line for each key that differs and may not:
///     run.toml:4: discount: got 0.9, but runs/a has 0.99, which is the same for all of a run
Status check_same_run(const Config& now, const Config& recorded, std::string_view run);

}  // namespace troupe::apps
