#pragma once
// What all commands that start a run take: a configuration, overrides of it, and where the run is recorded.
#include <optional>
#include <string>
#include <vector>

#include <troupe/core/config.hpp>
#include <troupe/core/error.hpp>
#include <troupe/run/check_begin.hpp>
#include <troupe/run/registry.hpp>
#include <troupe/run/run_directory.hpp>
#include <troupe/run/train_options.hpp>

namespace CLI {
class App;
}

namespace troupe::apps {

struct RunArguments {
  std::string config;
  std::string resume;
  std::string run_dir;
  std::vector<std::string> overrides;
  std::string init;
  std::optional<std::string> seed, max_minutes;  ///< as text: the schema checks them like everything else
  bool deterministic = false;

  /// Options of their own are short for --set; they come last, so they win.
  std::vector<std::string> all_overrides() const;
};

/// Adds the argument CONFIG to a command: a file, or the name of a shipped configuration; `config` outlives it.
void add_config_argument(CLI::App& command, std::string& config);
/// Adds that and the options to a command; `arguments` outlives it.
void add_run_arguments(CLI::App& command, RunArguments& arguments);

struct LoadedRun {
  Config config;
  actors::TrainOptions options;  ///< with a name
};

/// Loads the configuration that a user names, and says once which file that is when it is a shipped one.
/// Errors: its mistakes, one a line, for fail_config().
Result<Config> load_named_config(const std::string& name, const std::vector<std::string>& overrides,
                                 const Registry& registry);
/// The same with the options of a run.
Result<LoadedRun> load_run(const RunArguments& arguments, const Registry& registry);
/// The same for a run that is to begin, or to go on: also what check_begin.hpp says. Nothing is written.
Result<LoadedRun> load_to_begin(const RunArguments& arguments, const Registry& registry, RunKind kind);
/// That arguments.resume, if it was given, is the directory of a run. Errors: those of open_run_directory().
Status check_old_run(const RunArguments& arguments);
/// That the run in arguments.resume, if it was given, can go on with this configuration.
Status check_resume(const RunArguments& arguments, const Registry& registry, const Config& config);

/// The directory of the run to resume, or one for a new run.
Result<ClaimedRun> claim_directory(const RunArguments& arguments, const actors::TrainOptions& options);

/// For CLI::Option::check(): what is wrong with a seed of a command, or nothing. It has the range of the key.
std::string check_seed(const std::string& text);

/// Seconds since 1970.
double unix_s();

}  // namespace troupe::apps
