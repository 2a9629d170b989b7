// `troupe compare RUN...`: runs that are there side by side, as a table and a page.
#include <CLI/CLI.hpp>

#include <fmt/core.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <troupe/apps/commands/commands.hpp>
#include <troupe/apps/commands/compare_arguments.hpp>
#include <troupe/apps/sweep/sweep_directory.hpp>
#include <troupe/core/text.hpp>
#include <troupe/run/comparison.hpp>
#include <troupe/run/comparison_page.hpp>
#include <troupe/run/comparison_table.hpp>
#include <troupe/run/recorded_run.hpp>
#include <troupe/run/say.hpp>

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;

struct CompareCommandArguments {
  std::vector<std::string> runs;
  std::vector<std::string> by;
  std::string output;
  CompareArguments compared;
};

/// Of a sweep, the runs that have ended; else the directory itself.
Result<std::vector<fs::path>> runs_in(const std::string& path) {
  const SweepDirectory directory{path};
  if (!is_sweep(directory)) return std::vector<fs::path>{path};
  TROUPE_ASSIGN(const RecordedSweep sweep, read_sweep(directory));
  std::vector<fs::path> runs;
  for (const SweepRun& run : sweep.plan.runs) {
    if (state_of(directory.run(run)) == RunState::kFinished) runs.push_back(directory.run(run).path);
  }
  if (runs.empty()) return Error{Code::kNotFound, fmt::format("{}: no run of this sweep has ended", directory.shown())};
  return runs;
}

Result<Comparison> compare_all(const CompareCommandArguments& arguments, const Registry& registry) {
  ComparisonOptions options{.by = arguments.by};
  TROUPE_TRY(apply(arguments.compared, options));
  std::vector<RecordedRun> runs;
  for (const std::string& path : arguments.runs) {
    TROUPE_ASSIGN(const std::vector<fs::path> found, runs_in(path));
    for (const fs::path& run : found) {
      TROUPE_ASSIGN(RecordedRun recorded, read_recorded_run(run, registry));
      runs.push_back(std::move(recorded));
    }
  }
  return compare(runs, options);
}

int run(const CompareCommandArguments& arguments, const Registry& registry) {
  const auto comparison = compare_all(arguments, registry);
  if (!comparison.ok()) return fail(comparison.error());
  if (!arguments.output.empty()) {
    const PageText text{.title = "Comparison of runs"};
    const Status written = write_comparison(*comparison, text, arguments.output, "compare.html");
    if (!written.ok()) return fail(written.error());
  }
  say("{}\n", comparison_text(*comparison));
  for (const std::string& note : notes_of(*comparison)) say("{}\n", note);
  if (!arguments.output.empty()) {
    say("\nthe page: {}\n", printable((fs::path(arguments.output) / "compare.html").string(), 4096));
  }
  return kExitOk;
}

}  // namespace

void add_compare_command(CLI::App& app, const Registry& registry, Command* chosen) {
  CLI::App* command = app.add_subcommand("compare", "Compare runs: a table, and a page of curves");
  const auto arguments = std::make_shared<CompareCommandArguments>();
  CompareCommandArguments& a = *arguments;
  command->add_option("run", a.runs, "Directories of runs, or of sweeps, whose ended runs count")
      ->required()
      ->type_name("RUN");
  command->add_option("--by", a.by, "Only this key tells settings apart, instead of all that differ; may be repeated")
      ->type_name("KEY")
      ->allow_extra_args(false);
  command->add_option("-o,--output", a.output, "Folder for table.csv, table.md, compare.html and curves/")
      ->type_name("DIR");
  add_compare_arguments(*command, a.compared);
  command->callback(
      [arguments, &registry, chosen] { *chosen = [arguments, &registry] { return run(*arguments, registry); }; });
}

}  // namespace troupe::apps
