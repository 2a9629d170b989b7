#pragma once
// What all commands that start a run take: a configuration, overrides of it, and where the run is recorded.
#include <optional>
#include <string>
#include <vector>

#include <troupe/actors/train_options.hpp>
#include <troupe/apps/run/run_directory.hpp>
#include <troupe/core/config.hpp>
#include <troupe/core/error.hpp>

namespace CLI {
class App;
}

namespace troupe::apps {

struct RunArguments {
  std::string config;
  std::string resume;
  std::string run_dir;
  std::vector<std::string> overrides;
  std::optional<std::string> seed, max_minutes;  ///< as text: the schema checks them like everything else
  bool deterministic = false;

  /// Options of their own are short for --set; they come last, so they win.
  std::vector<std::string> all_overrides() const;
};

/// Adds the options to a command; `arguments` outlives it.
void add_run_arguments(CLI::App& command, RunArguments& arguments);

struct LoadedRun {
  Config config;
  actors::TrainOptions options;  ///< with a name
};

/// Errors: the configuration's mistakes, one a line, for fail_config().
Result<LoadedRun> load_run(const RunArguments& arguments);

/// The directory of the run to resume, or one for a new run.
Result<RunDirectory> directory_of(const RunArguments& arguments, const actors::TrainOptions& options);

/// Seconds since 1970.
double unix_s();

}  // namespace troupe::apps
