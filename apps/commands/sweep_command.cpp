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
#include <troupe/apps/sweep/slurm_array.hpp>
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
  std::optional<std::size_t> jobs;
  bool slurm = false;
  std::vector<std::string> sbatch;
  std::optional<std::size_t> task;  ///< of Slurm's array: the only run that is meant
  CompareArguments compared;
};

/// What the arguments say by themselves, without a look at any file.
Result<SweepRequest> request_of(const SweepArguments& arguments) {
  SweepRequest request{.configs = arguments.configs, .keys = {}, .seeds = {}};
  TROUPE_ASSIGN(request.keys, parse_swept_keys(arguments.settings));
  if (!arguments.seeds.empty()) {
    TROUPE_ASSIGN(request.seeds, parse_seeds(arguments.seeds));
  }
  return request;
}

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
Result<RecordedSweep> planned(const SweepArguments& arguments, const SweepRequest& request,
                              const SweepDirectory& directory, const Registry& registry) {
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
    TROUPE_TRY(check_free(directory));
    auto grid = plan_sweep(request, registry);
    if (!grid.ok()) return Error{Code::kInvalidArgument, grid.error().message};  // all of it is about configurations
    sweep.plan = std::move(grid).value();
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

/// What is said at the end, and the exit code.
int ended(const SweepDirectory& directory, const SweepOutcome& outcome, const std::optional<Comparison>& learnt,
          std::size_t all) {
  if (learnt) {
    say("\n{}\n", comparison_text(*learnt));
    say("results: {}\n", printable((directory.path / "sweep.html").string(), 4096));
    say("look at it: troupe watch {}\n", shell_word(directory.path.string()));
  }
  if (outcome.finished == all) return kExitOk;
  say("{} of {} runs have ended, {} failed; the same command, or troupe sweep --resume {}, goes on\n", outcome.finished,
      all, outcome.failed, shell_word(directory.path.string()));
  return kExitFailure;
}

/// One run, as a task of Slurm's array. Other tasks are at work on the same sweep.
Result<int> do_task(const SweepDirectory& directory, const RecordedSweep& sweep, const Registry& registry,
                    std::size_t task) {
  const std::size_t all = sweep.plan.runs.size();
  if (task >= all) {
    return Error{Code::kOutOfRange, fmt::format("--task {}: the sweep has {} runs, from 0 on", task, all)};
  }
  std::vector<std::size_t> numbers = unfinished(directory, sweep.plan);
  std::erase_if(numbers, [&](std::size_t number) { return number != task; });
  const auto done = run_here(directory, sweep, registry, numbers, 1);
  if (!done.ok()) return done.error();
  TROUPE_TRY(write_results(directory, sweep, registry));
  return static_cast<int>(state_of(directory.run(sweep.plan.runs[task])) == RunState::kFinished ? kExitOk
                                                                                                : kExitFailure);
}

/// Hands what is to do to Slurm, and does not wait for it.
Result<int> hand_over(const SweepDirectory& directory, const RecordedSweep& sweep, const SweepArguments& arguments,
                      const Registry& registry, const std::vector<std::size_t>& numbers) {
  say_failures(directory, sweep.plan, numbers);
  TROUPE_ASSIGN(auto program, registry.command());
  TROUPE_ASSIGN(
      const std::string job,
      submit(directory, numbers, {.program = std::move(program), .sbatch = arguments.sbatch, .jobs = arguments.jobs}));
  say("Slurm job {} does them; the same command says how far it is\n", job);
  return static_cast<int>(kExitOk);
}

/// A job of Slurm's has the sweep in hand, and whoever asks by Slurm is told how far it is.
Result<int> at_work(const SweepDirectory& directory, const SweepPlan& plan, const std::string& job, bool asked) {
  const std::size_t all = plan.runs.size();
  const std::string what = fmt::format("{}: Slurm job {} is at work on this sweep, {} of {} runs have ended",
                                       directory.shown(), job, all - unfinished(directory, plan).size(), all);
  if (!asked) return Error{Code::kUnavailable, fmt::format("{}; wait for it, or end it with scancel {}", what, job)};
  say("{}\n", what);
  return static_cast<int>(kExitOk);
}

Result<int> sweep(const SweepArguments& arguments, const SweepRequest& request, const Registry& registry) {
  const SweepDirectory directory = directory_of(arguments);
  TROUPE_ASSIGN(const RecordedSweep sweep, planned(arguments, request, directory, registry));
  if (arguments.task) return do_task(directory, sweep, registry, *arguments.task);
  std::error_code error;
  const bool fresh = !fs::exists(directory.path, error);
  fs::create_directories(directory.path, error);
  if (error) return Error{Code::kIo, fmt::format("{}: {}", directory.shown(), error.message())};
  TROUPE_ASSIGN(const RunLock held, lock(directory));
  const std::size_t all = sweep.plan.runs.size();
  const auto job = active_job(directory);
  if (!job.ok() && arguments.slurm) return job.error();
  // Without Slurm's programs there is no saying; but a run is trained once at a time in any case.
  if (!job.ok())
    log::warn("whether Slurm is at work on {} cannot be found out: {}", directory.shown(), job.error().message);
  if (job.ok() && *job) return at_work(directory, sweep.plan, **job, arguments.slurm);
  TROUPE_TRY(write_sweep(directory, sweep));
  const std::vector<std::size_t> numbers = unfinished(directory, sweep.plan);
  const std::size_t jobs = arguments.jobs.value_or(1);
  say("{} runs in {}, {} of them to do{}\n", all, directory.shown(), numbers.size(),
      arguments.slurm ? "" : fmt::format(", {} at a time", jobs));
  if (arguments.slurm && !numbers.empty()) {
    auto handed = hand_over(directory, sweep, arguments, registry, numbers);
    if (!handed.ok() && fresh) fs::remove_all(directory.path, error);  // nothing has come of it
    return handed;
  }
  TROUPE_ASSIGN(const SweepOutcome outcome, run_here(directory, sweep, registry, numbers, jobs));
  TROUPE_ASSIGN(const auto learnt, write_results(directory, sweep, registry));
  return ended(directory, outcome, learnt, all);
}

int run(const SweepArguments& arguments, const Registry& registry) {
  const Result<SweepRequest> request = request_of(arguments);
  if (!request.ok()) return fail(request.error(), kExitUsage);
  const Result<int> done = sweep(arguments, *request, registry);
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
  command->add_option("-o,--output", a.output, "Directory of the sweep; by default sweeps/ and the first CONFIG's name")
      ->type_name("DIR")
      ->excludes(resume);
  command->add_option("--seeds", a.seeds, "1..5 or 1,2,7; by default each configuration's own")
      ->type_name("SEEDS")
      ->excludes(resume);
  command->add_option("--set", a.settings, "A key with one or more values; may be repeated")
      ->type_name("KEY=VALUE,...")
      ->allow_extra_args(false)
      ->excludes(resume);
  command
      ->add_option("--jobs", a.jobs,
                   "Runs at a time, each with its share of the processors (default 1; with --slurm no limit)")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  CLI::Option* slurm = command->add_flag("--slurm", a.slurm, "Hand the runs to Slurm, as the tasks of an array job");
  command->add_option("--sbatch", a.sbatch, "An option for sbatch, as in --sbatch=--time=2:00:00; may be repeated")
      ->type_name("OPTION")
      ->allow_extra_args(false)
      ->needs(slurm);
  command->add_option("--task", a.task)->needs(resume)->group("");
  add_compare_arguments(*command, a.compared);
  command->callback([arguments, &registry, chosen] {
    if (arguments->configs.empty() && arguments->resume.empty()) throw CLI::RequiredError("config");
    *chosen = [arguments, &registry] { return run(*arguments, registry); };
  });
}

}  // namespace troupe::apps
