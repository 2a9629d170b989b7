#pragma once
// The directory of a sweep: everything that it leaves behind, by its fixed names.
//   sweep.json    the plan, the program's version and the machine: what goes on with it later, or as a Slurm job, reads
//   configs/      a copy of each configuration
//   runs/NAME/    the directory of each run (run/run_directory.hpp)
//   logs/NAME.log what each run's program has said, and NAME.failed: how it last ended, if it failed
//   slurm.sbatch  slurm.job     with --slurm: the script of each task, and the job that it was submitted as
//   table.csv  table.md  sweep.html  curves/TASK.svg     what came of the runs that have ended
#include <filesystem>
#include <string>
#include <vector>

#include <troupe/apps/sweep/plan.hpp>
#include <troupe/core/error.hpp>
#include <troupe/run/comparison.hpp>
#include <troupe/run/run_directory.hpp>

namespace troupe::apps {

struct SweepDirectory {
  std::filesystem::path path;

  std::filesystem::path plan() const { return path / "sweep.json"; }
  std::filesystem::path configs() const { return path / "configs"; }
  std::filesystem::path config(const SweepRun& run) const { return configs() / (run.config + ".toml"); }
  std::filesystem::path runs() const { return path / "runs"; }
  RunDirectory run(const SweepRun& run) const { return {runs() / run.name}; }
  std::filesystem::path logs() const { return path / "logs"; }
  std::filesystem::path log(const SweepRun& run) const { return logs() / (run.name + ".log"); }
  std::filesystem::path failure(const SweepRun& run) const { return logs() / (run.name + ".failed"); }
  /// As people may see it, see printable().
  std::string shown() const;
};

/// What sweep.json says.
struct RecordedSweep {
  SweepPlan plan;
  std::string version;  ///< of the program that began it
  std::string machine;
  ComparisonOptions compared;  ///< what the table is to say
};

bool is_sweep(const SweepDirectory& directory);
/// Errors: kNotFound: no sweep.json; kCorrupt: it is none of ours, or a copy of a configuration is missing.
Result<RecordedSweep> read_sweep(const SweepDirectory& directory);
/// Makes the directory and its folders where they are missing; sweep.json comes last. Errors: kIo.
Status write_sweep(const SweepDirectory& directory, const RecordedSweep& sweep);

/// How far a run is, by what it has left.
enum class RunState {
  kNew,       ///< nothing that it could go on from
  kBegun,     ///< it has a checkpoint, and goes on from there
  kFinished,  ///< it has met a limit of its own
};
RunState state_of(const RunDirectory& run);

}  // namespace troupe::apps
