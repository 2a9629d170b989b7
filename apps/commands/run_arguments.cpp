#include <troupe/apps/commands/run_arguments.hpp>

#include <CLI/CLI.hpp>

#include <fmt/core.h>

#include <charconv>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <utility>

#include <troupe/core/log.hpp>
#include <troupe/core/text.hpp>
#include <troupe/run/find_config.hpp>
#include <troupe/run/train_schema.hpp>

namespace troupe::apps {

std::vector<std::string> RunArguments::all_overrides() const {
  std::vector<std::string> all = overrides;
  if (seed) all.push_back("seed=" + *seed);
  if (max_minutes) all.push_back("max_minutes=" + *max_minutes);
  if (deterministic) all.push_back("deterministic=true");
  // Nodes look for it from where they are started.
  if (!init.empty()) all.push_back("init=\"" + std::filesystem::absolute(init).string() + "\"");
  return all;
}

void add_config_argument(CLI::App& command, std::string& config) {
  command.add_option("config", config, "Configuration file, or the name of a shipped one")
      ->required()
      ->type_name("CONFIG");
}

void add_run_arguments(CLI::App& command, RunArguments& a) {
  add_config_argument(command, a.config);
  CLI::Option* resume =
      command.add_option("--resume", a.resume, "Go on from the newest checkpoint of a run")->type_name("RUN");
  command.add_option("--run-dir", a.run_dir, "Record the run here instead of in runs/<name>-<time>")
      ->type_name("DIR")
      ->excludes(resume);
  command.add_option("--init", a.init, "Begin with what a run, or a file of safetensors, has learnt")
      ->type_name("RUN|FILE")
      ->excludes(resume);
  command.add_option("--seed", a.seed, "Short for --set seed=N")->type_name("N");
  command.add_option("--max-minutes", a.max_minutes, "Short for --set max_minutes=M")->type_name("M");
  command.add_flag("--deterministic", a.deterministic, "Short for --set deterministic=true");
  command.add_option("--set", a.overrides, "Override a key of the configuration; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}

Result<Config> load_named_config(const std::string& name, const std::vector<std::string>& overrides,
                                 const Registry& registry) {
  TROUPE_ASSIGN(const std::filesystem::path file, find_config(name));
  if (file != name) log::info("configuration {}: {}", name, file.string());
  return load_config(file, overrides, train_schema(registry));
}

Result<LoadedRun> load_run(const RunArguments& arguments, const Registry& registry) {
  TROUPE_ASSIGN(Config config, load_named_config(arguments.config, arguments.all_overrides(), registry));
  TROUPE_ASSIGN(actors::TrainOptions options, to_train_options(config, registry));
  if (options.name.empty()) options.name = std::filesystem::path(arguments.config).stem().string();
  return LoadedRun{std::move(config), std::move(options)};
}

Status check_old_run(const RunArguments& arguments) {
  if (arguments.resume.empty()) return {};
  const auto run = open_run_directory(arguments.resume);
  return run.ok() ? Status() : run.error();
}

Status check_resume(const RunArguments& arguments, const Registry& registry, const Config& config) {
  if (arguments.resume.empty()) return {};
  TROUPE_ASSIGN(const RunDirectory run, open_run_directory(arguments.resume));
  TROUPE_ASSIGN(const Config recorded, load_config(run.config(), {}, train_schema(registry)));
  return check_same_run(config, recorded, run.shown());
}

Result<LoadedRun> load_to_begin(const RunArguments& arguments, const Registry& registry, RunKind kind) {
  TROUPE_ASSIGN(LoadedRun loaded, load_run(arguments, registry));
  TROUPE_TRY(check_resume(arguments, registry, loaded.config));
  TROUPE_TRY(check_begin(loaded.config, loaded.options, kind));
  return loaded;
}

Result<ClaimedRun> claim_directory(const RunArguments& arguments, const actors::TrainOptions& options) {
  if (!arguments.resume.empty()) {
    TROUPE_ASSIGN(RunDirectory old, open_run_directory(arguments.resume));
    return ClaimedRun::reopen(std::move(old));
  }
  return make_run_directory({.requested = arguments.run_dir,
                             .name = options.name,
                             .unix_s = static_cast<long long>(unix_s()),
                             .config = arguments.config});
}

std::string check_seed(const std::string& text) {
  std::int64_t seed = -1;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, seed);
  if (parsed.ec == std::errc() && parsed.ptr == end && seed >= 0) return "";
  return fmt::format("got {}, expected a whole number from 0 to {}", printable(text),
                     std::numeric_limits<std::int64_t>::max());
}

double unix_s() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

}  // namespace troupe::apps
