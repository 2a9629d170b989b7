#include <troupe/apps/commands/run_arguments.hpp>

#include <CLI/CLI.hpp>

#include <chrono>
#include <filesystem>

#include <troupe/apps/run/train_schema.hpp>
#include <troupe/envs/environment.hpp>

namespace troupe::apps {

std::vector<std::string> RunArguments::all_overrides() const {
  std::vector<std::string> all = overrides;
  if (seed) all.push_back("seed=" + *seed);
  if (max_minutes) all.push_back("max_minutes=" + *max_minutes);
  if (deterministic) all.push_back("deterministic=true");
  return all;
}

void add_run_arguments(CLI::App& command, RunArguments& a) {
  command.add_option("config", a.config, "Configuration file, see apps/configs")->required()->type_name("CONFIG");
  CLI::Option* resume =
      command.add_option("--resume", a.resume, "Go on from the newest checkpoint of a run")->type_name("RUN");
  command.add_option("--run-dir", a.run_dir, "Record the run here instead of in runs/<name>-<time>")
      ->type_name("DIR")
      ->excludes(resume);
  command.add_option("--seed", a.seed, "Short for --set seed=N")->type_name("N");
  command.add_option("--max-minutes", a.max_minutes, "Short for --set max_minutes=M")->type_name("M");
  command.add_flag("--deterministic", a.deterministic, "Short for --set deterministic=true");
  command.add_option("--set", a.overrides, "Override a key of the configuration; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}

Result<LoadedRun> load_run(const RunArguments& arguments) {
  TROUPE_ASSIGN(Config config,
                load_config(arguments.config, arguments.all_overrides(), train_schema(envs::environment_names())));
  TROUPE_ASSIGN(actors::TrainOptions options, to_train_options(config));
  if (options.name.empty()) options.name = std::filesystem::path(arguments.config).stem().string();
  return LoadedRun{std::move(config), std::move(options)};
}

Result<RunDirectory> directory_of(const RunArguments& arguments, const actors::TrainOptions& options) {
  if (!arguments.resume.empty()) return open_run_directory(arguments.resume);
  return make_run_directory(arguments.run_dir, options.name, static_cast<long long>(unix_s()));
}

double unix_s() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

}  // namespace troupe::apps
