// `troupe train CONFIG`: one training run, from the config file to summary.json.
#include <CLI/CLI.hpp>

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <troupe/actors/train.hpp>
#include <troupe/apps/commands/commands.hpp>
#include <troupe/apps/run/csv_metrics.hpp>
#include <troupe/apps/run/evaluations.hpp>
#include <troupe/apps/run/fan_out.hpp>
#include <troupe/apps/run/learning_curve.hpp>
#include <troupe/apps/run/progress.hpp>
#include <troupe/apps/run/run_directory.hpp>
#include <troupe/apps/run/stop_request.hpp>
#include <troupe/apps/run/summary.hpp>
#include <troupe/apps/run/tensorboard.hpp>
#include <troupe/apps/run/train_schema.hpp>
#include <troupe/apps/version.hpp>
#include <troupe/core/atomic_file.hpp>
#include <troupe/core/clock.hpp>
#include <troupe/core/config.hpp>
#include <troupe/core/log.hpp>
#include <troupe/envs/environment.hpp>

namespace troupe::apps {
namespace {

struct Arguments {
  std::string config;
  std::string resume;
  std::string run_dir;
  std::vector<std::string> overrides;
  std::optional<std::string> seed, max_minutes;  ///< as text: the schema checks them like everything else
  bool deterministic = false;
  bool quiet = false;

  /// Options of their own are short for --set; they come last, so they win.
  std::vector<std::string> all_overrides() const {
    std::vector<std::string> all = overrides;
    if (seed) all.push_back("seed=" + *seed);
    if (max_minutes) all.push_back("max_minutes=" + *max_minutes);
    if (deterministic) all.push_back("deterministic=true");
    return all;
  }
};

double unix_s() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

int terminal_columns() {
  winsize size = {};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

/// The evaluations of the run's earlier starts.
Result<std::vector<actors::Evaluation>> earlier_evaluations(const RunDirectory& run) {
  std::vector<actors::Evaluation> evaluations;
  if (!std::filesystem::exists(run.metrics())) return evaluations;
  TROUPE_ASSIGN(const std::vector<MetricRow> rows, read_csv_metrics(run.metrics()));
  for (const MetricRow& row : rows) {
    if (const auto evaluation = evaluation_of(row)) evaluations.push_back(*evaluation);
  }
  return evaluations;
}

/// Everything after the checks of the configuration: records the run in `run`, and says how it ended.
Status train_in(const RunDirectory& run, const Config& config, const actors::TrainOptions& options, bool resume,
                bool quiet) {
  TROUPE_ASSIGN(const RunLock lock, RunLock::take(run));
  // A run that is resumed keeps the configuration that its checkpoints were made with until new ones are there.
  if (!resume) TROUPE_TRY(write_file_atomic(run.config().string(), config.to_toml()));
  log::also_to_file(run.log().string());
  if (quiet) log::set_level(log::Level::kWarn);

  TROUPE_ASSIGN(CsvSink csv, CsvSink::open(run.metrics()));
  TROUPE_ASSIGN(TensorBoardSink tensorboard, TensorBoardSink::create(run.path, unix_s()));
  TROUPE_ASSIGN(std::vector<actors::Evaluation> earlier, earlier_evaluations(run));
  LearningCurveSink curve(run.learning_curve(), fmt::format("{}, seed {}", options.env, options.seed),
                          std::move(earlier));
  const SteadyClock clock;
  const ProgressStyle style = isatty(STDOUT_FILENO) != 0 ? ProgressStyle::kLive : ProgressStyle::kPlain;
  const RunLimits limits = {options.max_minutes, options.max_env_steps, options.max_learner_steps};
  ProgressSink progress(stdout, style, terminal_columns(), limits, clock);
  std::vector<MetricSink*> sinks = {&csv, &tensorboard, &curve};
  if (!quiet) sinks.push_back(&progress);
  FanOut metrics(std::move(sinks));

  if (!quiet) fmt::print("{} {} in {}\n", resume ? "resuming" : "training on", options.env, run.path.string());
  const StopRequest stop;
  const Result<actors::TrainSummary> trained = actors::train(
      options, {.stop = &stop.flag(), .metrics = &metrics, .checkpoint_dir = run.checkpoints(), .resume = resume});
  progress.finish();
  const Status flushed = metrics.flush();
  if (!trained.ok()) return trained.error();
  TROUPE_TRY(flushed);
  if (resume) TROUPE_TRY(write_file_atomic(run.config().string(), config.to_toml()));
  const RunSummary summary = {.env = options.env,
                              .seed = options.seed,
                              .version = std::string(version()),
                              .config_hash = config.hash(),
                              .train = *trained,
                              .evaluations = curve.evaluations()};
  TROUPE_TRY(write_file_atomic(run.summary().string(), summary_json(summary)));
  if (!quiet) {
    fmt::print("{}", summary_table(summary));
    fmt::print("  {:<14} {}\n", "recorded in", run.path.string());
  }
  return {};
}

int run(const Arguments& arguments) {
  const Result<Config> config =
      load_config(arguments.config, arguments.all_overrides(), train_schema(envs::environment_names()));
  if (!config.ok()) return fail_config(config.error());
  Result<actors::TrainOptions> options = to_train_options(*config);
  if (!options.ok()) return fail_config(options.error());
  if (options->name.empty()) options->name = std::filesystem::path(arguments.config).stem().string();

  const bool resume = !arguments.resume.empty();
  const Result<RunDirectory> directory =
      resume ? open_run_directory(arguments.resume)
             : make_run_directory(arguments.run_dir, options->name, static_cast<long long>(unix_s()));
  if (!directory.ok()) return fail(directory.error());
  const Status done = train_in(*directory, *config, *options, resume, arguments.quiet);
  return done.ok() ? kExitOk : fail(done.error());
}

}  // namespace

void add_train_command(CLI::App& app, Command* chosen) {
  CLI::App* command = app.add_subcommand("train", "Train an agent; Ctrl-C makes a checkpoint and ends");
  const auto arguments = std::make_shared<Arguments>();
  Arguments& a = *arguments;
  command->add_option("config", a.config, "Configuration file, see apps/configs")->required()->type_name("CONFIG");
  CLI::Option* resume =
      command->add_option("--resume", a.resume, "Go on from the newest checkpoint of a run")->type_name("RUN");
  command->add_option("--run-dir", a.run_dir, "Record the run here instead of in runs/<name>-<time>")
      ->type_name("DIR")
      ->excludes(resume);
  command->add_option("--seed", a.seed, "Short for --set seed=N")->type_name("N");
  command->add_option("--max-minutes", a.max_minutes, "Short for --set max_minutes=M")->type_name("M");
  command->add_flag("--deterministic", a.deterministic, "Short for --set deterministic=true");
  command->add_option("--set", a.overrides, "Override a key of the configuration; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command->add_flag("--quiet", a.quiet, "Print nothing but warnings and errors");
  command->callback([arguments, chosen] { *chosen = [arguments] { return run(*arguments); }; });
}

}  // namespace troupe::apps
