// `troupe train CONFIG`: one training run, from the config file to summary.json.
#include <CLI/CLI.hpp>

#include <memory>
#include <optional>
#include <utility>

#include <fmt/core.h>

#include <troupe/apps/cluster/launch_run.hpp>
#include <troupe/apps/commands/commands.hpp>
#include <troupe/apps/commands/page_child.hpp>
#include <troupe/apps/commands/record_run.hpp>
#include <troupe/apps/commands/run_arguments.hpp>
#include <troupe/apps/version.hpp>
#include <troupe/core/log.hpp>
#include <troupe/run/memory_check.hpp>
#include <troupe/run/role_counts.hpp>

namespace troupe::apps {
namespace {

struct TrainArguments {
  RunArguments run;
  bool processes = false;
  bool quiet = false;
  bool page = false;
};

int run(const TrainArguments& arguments, const Registry& registry) {
  if (arguments.quiet) log::set_level(log::Level::kWarn);
  const RunKind kind = arguments.processes ? RunKind::kProcesses : RunKind::kOneProcess;
  if (const Status there = check_old_run(arguments.run); !there.ok()) return fail(there.error());
  const Result<LoadedRun> loaded = load_to_begin(arguments.run, registry, kind);
  if (!loaded.ok()) return fail_config(loaded.error());
  std::int64_t others = 0;
  for (const actors::RoleCount& role : actors::role_counts(loaded->options)) others += role.nodes;
  const Status fits = check_memory(loaded->options, arguments.processes ? 1 + others : 1, available_memory());
  if (!fits.ok()) return fail(fits.error());
  Result<ClaimedRun> claimed = claim_directory(arguments.run, loaded->options);
  if (!claimed.ok()) return fail(claimed.error());
  const RunDirectory& directory = claimed->run();
  const bool resume = !arguments.run.resume.empty();
  if (resume) {
    if (const Status can = check_resumable(directory, arguments.processes); !can.ok()) return fail(can.error());
  }
  const auto keep_if = [&](bool done) {
    if (done || is_recorded(directory)) claimed->keep();
  };
  std::optional<PageChild> page;
  if (arguments.page) {
    auto started = PageChild::start(directory);
    if (!started.ok()) return fail(started.error());
    page.emplace(std::move(started).value());
  }
  if (arguments.processes) {
    const HostsFile here{.port = 0, .hosts = {Host{}}};
    auto command = registry.command();
    if (!command.ok()) return fail(command.error());
    const Result<int> ended = launch_run({.directory = directory,
                                          .resume = resume,
                                          .program = std::string(version()),
                                          .command = std::move(command).value(),
                                          .quiet = arguments.quiet},
                                         loaded->config, loaded->options, here);
    keep_if(ended.ok() && *ended == kExitOk);
    return ended.ok() ? *ended : fail_run(ended.error());
  }
  const Status done =
      record_run(directory, loaded->config, loaded->options, {.resume = resume, .quiet = arguments.quiet});
  keep_if(done.ok());
  return exit_code(done);
}

}  // namespace

void add_train_command(CLI::App& app, const Registry& registry, Command* chosen) {
  CLI::App* command = app.add_subcommand("train", "Train an agent; Ctrl-C makes a checkpoint and ends");
  const auto arguments = std::make_shared<TrainArguments>();
  add_run_arguments(*command, arguments->run);
  command->add_flag("--processes", arguments->processes, "A process for each role, by [placement], on this host");
  command->add_flag("--page", arguments->page, "A page that shows the run while it lasts: troupe watch beside it");
  command->add_flag("--quiet", arguments->quiet, "Print nothing but warnings and errors");
  command->callback(
      [arguments, &registry, chosen] { *chosen = [arguments, &registry] { return run(*arguments, registry); }; });
}

}  // namespace troupe::apps
