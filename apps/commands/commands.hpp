#pragma once
// The subcommands of the program, one file each. Each function below adds its subcommand's options to the program's;
// when the user has chosen it, *chosen becomes what main() then calls for the exit code. Those that read configurations
// have the program's registry, which outlives them.
#include <functional>
#include <string>

#include <troupe/core/error.hpp>
#include <troupe/run/registry.hpp>

namespace CLI {
class App;
}

namespace troupe::apps {

/// What the program ends with (sysexits.h where it has a number for it).
enum ExitCode {
  kExitOk = 0,       ///< done; also when Ctrl-C or SIGTERM ended a run, after its checkpoint
  kExitFailure = 1,  ///< it could not be done: the message says why
  kExitUsage = 64,   ///< the command line is wrong
  kExitConfig = 78,  ///< the configuration is wrong or missing: every mistake is listed
};

using Command = std::function<int()>;

void add_train_command(CLI::App& app, const Registry& registry, Command* chosen);
void add_sweep_command(CLI::App& app, const Registry& registry, Command* chosen);
void add_compare_command(CLI::App& app, const Registry& registry, Command* chosen);
void add_watch_command(CLI::App& app, const Registry& registry, Command* chosen);
void add_status_command(CLI::App& app, Command* chosen);
void add_stop_command(CLI::App& app, Command* chosen);
void add_token_command(CLI::App& app, const Registry& registry, Command* chosen);
void add_node_command(CLI::App& app, const Registry& registry, Command* chosen);
void add_up_command(CLI::App& app, const Registry& registry, Command* chosen);
void add_plan_command(CLI::App& app, const Registry& registry, Command* chosen);
void add_tether_command(CLI::App& app, Command* chosen);
void add_render_command(CLI::App& app, const Registry& registry, Command* chosen);
void add_export_command(CLI::App& app, const Registry& registry, Command* chosen);
void add_sample_command(CLI::App& app, const Registry& registry, Command* chosen);
void add_eval_command(CLI::App& app, const Registry& registry, Command* chosen);
void add_graph_command(CLI::App& app, const Registry& registry, Command* chosen);
void add_verify_command(CLI::App& app, const Registry& registry, Command* chosen);
void add_compile_command(CLI::App& app, const Registry& registry, Command* chosen);
void add_envs_command(CLI::App& app, const Registry& registry, Command* chosen);
void add_config_command(CLI::App& app, const Registry& registry, Command* chosen);
void add_doctor_command(CLI::App& app, Command* chosen);
void add_version_command(CLI::App& app, Command* chosen);

/// Prints "troupe: <message>" to stderr and returns `code`.
int fail(const Error& error, int code = kExitFailure);
/// kExitOk, or fail().
int exit_code(const Status& done);
/// Prints a configuration's mistakes, one a line as they are, and returns kExitConfig.
int fail_config(const Error& error);
/// Either of the two: what is invalid about a run is a mistake in its configuration.
int fail_run(const Error& error);

}  // namespace troupe::apps
