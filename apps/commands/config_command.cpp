// `troupe config --explain` lists every key; `troupe config FILE` checks a file and prints what it resolves to.
#include <CLI/CLI.hpp>

#include <fmt/core.h>

#include <memory>
#include <string>
#include <vector>

#include <troupe/apps/commands/commands.hpp>
#include <troupe/apps/commands/run_arguments.hpp>
#include <troupe/core/config.hpp>
#include <troupe/run/check_begin.hpp>
#include <troupe/run/say.hpp>
#include <troupe/run/train_schema.hpp>

namespace troupe::apps {
namespace {

struct ConfigArguments {
  std::string file;
  std::vector<std::string> overrides;
  bool explain = false;
  bool processes = false;
};

/// What the names are that a key chooses from, a line each.
template <typename Kind>
void explain_names(const Registry::ByName<Kind>& kinds) {
  for (const auto& [name, kind] : kinds) say("      {}: {}\n", name, kind.doc);
}

/// Two lines a key: what it is and may be, then what it means.
void explain(const Registry& registry) {
  for (const ConfigKey& key : train_schema(registry)) {
    if (key.path.starts_with("agents.*.")) continue;  // said once, below
    std::string about = fmt::format("{}", type_name(key.default_value));
    if (!key.unit.empty()) about += fmt::format(", {}", key.unit);
    if (const std::string allowed = allowed_values(key); !allowed.empty()) about += fmt::format(", {}", allowed);
    if (key.fixed != ConfigKey::Fixed::kNo) about += ", the same for all of a run";
    about += key.required ? "; required" : fmt::format("; default {}", troupe::to_toml(key.default_value));
    std::string path = key.path;
    if (const std::size_t star = path.find('*'); star != std::string::npos) path.replace(star, 1, "NAME");
    if (key.only_with) path += fmt::format(", with {} = \"{}\"", key.only_with->key, key.only_with->value);
    say("{}\n    {}\n    {}\n", path, key.doc, about);
    if (path == "algorithm") explain_names(registry.algorithms());
    if (path == "wrappers") explain_names(registry.wrappers());
  }
  say("agents.NAME.KEY\n    Of one of several agents: every KEY of an agent above\n    as above; env is required\n");
}

int run(const ConfigArguments& arguments, const Registry& registry) {
  if (arguments.explain) {
    explain(registry);
    return kExitOk;
  }
  const Result<Config> config = load_named_config(arguments.file, arguments.overrides, registry);
  if (!config.ok()) return fail_config(config.error());
  const Result<actors::TrainOptions> options = to_train_options(*config, registry);
  if (!options.ok()) return fail_config(options.error());
  const RunKind kind = arguments.processes ? RunKind::kProcesses : RunKind::kOneProcess;
  if (const Status can = check_begin(*config, *options, kind); !can.ok()) return fail_config(can.error());
  say("{}", config->to_toml());
  return kExitOk;
}

}  // namespace

void add_config_command(CLI::App& app, const Registry& registry, Command* chosen) {
  CLI::App* command = app.add_subcommand("config", "Check a configuration, or explain every key");
  const auto arguments = std::make_shared<ConfigArguments>();
  CLI::Option_group* what = command->add_option_group("what");
  what->add_option("config", arguments->file,
                   "File to check, or the name of a shipped one; its resolved form is printed")
      ->type_name("CONFIG");
  what->add_flag("--explain", arguments->explain, "Print every key with type, default, range and meaning");
  what->require_option(1);
  command->add_option("--set", arguments->overrides, "Override a key of the file")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command->add_flag("--processes", arguments->processes, "As `troupe train --processes` would take it");
  command->callback(
      [arguments, &registry, chosen] { *chosen = [arguments, &registry] { return run(*arguments, registry); }; });
}

}  // namespace troupe::apps
