// `troupe sweep CONFIG...`: a grid of runs over configurations, settings and seeds, and one table of them.
#include <CLI/CLI.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <troupe/apps/commands/commands.hpp>
#include <troupe/apps/commands/compare_arguments.hpp>
#include <troupe/apps/sweep/plan.hpp>
#include <troupe/apps/sweep/sweep.hpp>
#include <troupe/apps/sweep/sweep_directory.hpp>
#include <troupe/apps/version.hpp>
#include <troupe/core/log.hpp>
#include <troupe/core/text.hpp>
#include <troupe/run/comparison_table.hpp>
#include <troupe/run/machine.hpp>
#include <troupe/run/say.hpp>

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;

struct SweepArguments {
  std::vector<std::string> configs;
  std::string resume;
  std::string output;
  std::string seeds;
  std::vector<std::string> settings;
  std::size_t jobs = 1;
  CompareArguments compared;
};

/// The same for the same arguments, so that the same command goes on.
SweepDirectory directory_of(const SweepArguments& arguments) {
  if (!arguments.resume.empty()) return {arguments.resume};
  if (!arguments.output.empty()) return {arguments.output};
  const fs::path first = (fs::path(arguments.configs.front()) / "").parent_path();  // a folder's last slash goes
  return {fs::path("sweeps") / first.stem()};
}

/// A sweep begins in a place of its own.
Status check_free(const SweepDirectory& directory) {
  std::error_code error;
  if (!fs::exists(directory.path, error) || is_sweep(directory)) return {};
  if (fs::is_directory(directory.path, error) && fs::is_empty(directory.path, error)) return {};
  return Error{
      Code::kAlreadyExists,
      fmt::format("{}: is there already and is no sweep; name another place with --output", directory.shown())};
}

/// The plan in the directory, with what the arguments add to it. Nothing is written.
Result<RecordedSweep> planned(const SweepArguments& arguments, const SweepDirectory& directory,
                              const Registry& registry) {
  RecordedSweep sweep{.version = std::string(version()), .machine = machine()};
  std::optional<RecordedSweep> before;
  if (is_sweep(directory) || !arguments.resume.empty()) {
    TROUPE_ASSIGN(before, read_sweep(directory));
    sweep = *before;
    if (sweep.version != version()) {
      log::warn("{} was begun by troupe {}, and goes on with {}", directory.shown(), sweep.version, version());
    }
  }
  if (arguments.resume.empty()) {
    SweepRequest request{.configs = arguments.configs, .keys = {}, .seeds = {}};
    TROUPE_ASSIGN(request.keys, parse_swept_keys(arguments.settings));
    if (!arguments.seeds.empty()) {
      TROUPE_ASSIGN(request.seeds, parse_seeds(arguments.seeds));
    }
    TROUPE_TRY(check_free(directory));
    TROUPE_ASSIGN(sweep.plan, plan_sweep(request, registry));
    if (before) {
      auto all = grown(before->plan, sweep.plan, registry);
      if (!all.ok()) {
        return Error{all.error().code,
                     fmt::format("{}: this sweep is another one: {}; name another place with --output",
                                 directory.shown(), all.error().message)};
      }
      sweep.plan = std::move(all).value();
    }
  }
  TROUPE_TRY(apply(arguments.compared, sweep.compared));
  return sweep;
}

Result<RunLock> lock(const SweepDirectory& directory) {
  auto taken = RunLock::take({directory.path});
  if (taken.ok() || taken.error().code != Code::kUnavailable) return taken;
  return Error{Code::kUnavailable, fmt::format("{}: another process is at work on this sweep", directory.shown())};
}

Result<int> sweep(const SweepArguments& arguments, const Registry& registry) {
  const SweepDirectory directory = directory_of(arguments);
  TROUPE_ASSIGN(const RecordedSweep sweep, planned(arguments, directory, registry));
  std::error_code error;
  fs::create_directories(directory.path, error);
  if (error) return Error{Code::kIo, fmt::format("{}: {}", directory.shown(), error.message())};
  TROUPE_ASSIGN(const RunLock held, lock(directory));
  TROUPE_TRY(write_sweep(directory, sweep));
  const std::vector<std::size_t> numbers = unfinished(directory, sweep.plan);
  const std::size_t all = sweep.plan.runs.size();
  say("{} runs in {}, {} of them to do, {} at a time\n", all, directory.shown(), numbers.size(), arguments.jobs);
  TROUPE_ASSIGN(const SweepOutcome outcome, run_here(directory, sweep, registry, numbers, arguments.jobs));
  TROUPE_TRY(write_results(directory, sweep, registry));
  if (outcome.finished > 0) say("results: {}\n", printable((directory.path / "sweep.html").string(), 4096));
  if (outcome.finished == all) return static_cast<int>(kExitOk);
  say("{} of {} runs have ended, {} failed; the same command, or troupe sweep --resume {}, goes on\n", outcome.finished,
      all, outcome.failed, directory.shown());
  return static_cast<int>(kExitFailure);
}

int run(const SweepArguments& arguments, const Registry& registry) {
  const Result<int> done = sweep(arguments, registry);
  return done.ok() ? *done : fail_run(done.error());
}

}  // namespace

void add_sweep_command(CLI::App& app, const Registry& registry, Command* chosen) {
  CLI::App* command = app.add_subcommand("sweep", "Train a grid of runs, and make one table of them");
  const auto arguments = std::make_shared<SweepArguments>();
  SweepArguments& a = *arguments;
  CLI::Option* configs =
      command->add_option("config", a.configs, "Configuration files, folders of them, or names of shipped ones");
  configs->type_name("CONFIG");
  CLI::Option* resume = command->add_option("--resume", a.resume, "Go on with the sweep in this directory");
  resume->type_name("DIR")->excludes(configs);
  command->add_option("--output", a.output, "Directory of the sweep; by default sweeps/ and the first CONFIG's name")
      ->type_name("DIR")
      ->excludes(resume);
  command->add_option("--seeds", a.seeds, "1..5 or 1,2,7; by default each configuration's own")
      ->type_name("SEEDS")
      ->excludes(resume);
  command->add_option("--set", a.settings, "A key with one or more values; may be repeated")
      ->type_name("KEY=VALUE,...")
      ->allow_extra_args(false)
      ->excludes(resume);
  command->add_option("--jobs", a.jobs, "Runs at a time, each with its share of the processors")
      ->type_name("N")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  add_compare_arguments(*command, a.compared);
  command->callback([arguments, &registry, chosen] {
    if (arguments->configs.empty() && arguments->resume.empty()) throw CLI::RequiredError("config");
    *chosen = [arguments, &registry] { return run(*arguments, registry); };
  });
}

}  // namespace troupe::apps
