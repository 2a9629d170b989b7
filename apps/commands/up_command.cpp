// `troupe up HOSTS CONFIG`: a run on several hosts, over ssh, or over a relay to places that somebody else gives out.
#include <CLI/CLI.hpp>

#include <memory>
#include <string>
#include <vector>

#include <fmt/core.h>

#include <troupe/apps/cluster/detail/shell.hpp>
#include <troupe/apps/cluster/hosts_file.hpp>
#include <troupe/apps/cluster/launch_run.hpp>
#include <troupe/apps/commands/commands.hpp>
#include <troupe/apps/commands/run_arguments.hpp>
#include <troupe/apps/version.hpp>

namespace troupe::apps {
namespace {

struct UpArguments {
  std::string hosts;
  std::string via;
  RunArguments run;
};

int run(const UpArguments& arguments, const Registry& registry) {
  if (const Status there = check_old_run(arguments.run); !there.ok()) return fail(there.error());
  const Result<LoadedRun> loaded = load_to_begin(arguments.run, registry, RunKind::kHosts);
  if (!loaded.ok()) return fail_config(loaded.error());
  const std::vector<std::string> relay = detail::words(arguments.via);
  if (relay.empty() && !arguments.via.empty()) {
    return fail(Error{Code::kInvalidArgument, "--via: got no word, expected a command"}, kExitUsage);
  }
  const Result<HostsFile> hosts =
      load_hosts(arguments.hosts, loaded->options, relay.empty() ? Reach::kSsh : Reach::kRelay);
  if (!hosts.ok()) return fail_config(hosts.error());
  Result<ClaimedRun> claimed = claim_directory(arguments.run, loaded->options);
  if (!claimed.ok()) return fail(claimed.error());
  const RunDirectory& directory = claimed->run();
  const bool resume = !arguments.run.resume.empty();
  if (!hosts->hosts.front().ssh.empty()) claimed->unlock();  // the chief may see the same directory
  auto command = registry.command();
  if (!command.ok()) return fail(command.error());
  const Result<int> ended = launch_run(
      {directory, directory.path.string(), resume, std::string(version()), std::move(command).value(), relay},
      loaded->config, loaded->options, *hosts);
  if (ended.ok()) claimed->keep();  // what came of it may be on other hosts
  return ended.ok() ? *ended : fail_run(ended.error());
}

}  // namespace

void add_up_command(CLI::App& app, const Registry& registry, Command* chosen) {
  CLI::App* command =
      app.add_subcommand("up", "Train on several hosts over ssh; Ctrl-C makes a checkpoint and ends all of it");
  const auto arguments = std::make_shared<UpArguments>();
  command->add_option("hosts", arguments->hosts, "File with the hosts, see docs/deploy.md")
      ->required()
      ->type_name("HOSTS");
  command
      ->add_option(
          "--via", arguments->via,
          "Reach the hosts by this command and not by ssh: it is called as ssh is, `COMMAND PLACE -- WORDS...`")
      ->type_name("COMMAND");
  add_run_arguments(*command, arguments->run);
  command->callback(
      [arguments, &registry, chosen] { *chosen = [arguments, &registry] { return run(*arguments, registry); }; });
}

}  // namespace troupe::apps
