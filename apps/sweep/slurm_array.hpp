#pragma once
// A sweep as an array job of Slurm: task i is run i of the plan, done by `troupe sweep --resume DIR --task i` on
// whatever host Slurm finds for it. The directory of the sweep is on a file system that all hosts share.
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <troupe/apps/sweep/sweep_directory.hpp>
#include <troupe/core/error.hpp>

namespace troupe::apps {

struct SlurmOptions {
  std::vector<std::string> program;  ///< Registry::command()
  std::vector<std::string> sbatch;   ///< options of sbatch: they come last, so they win
  std::optional<std::size_t> jobs;   ///< tasks at a time; not given: as many as Slurm will
};

/// Ascending numbers as sbatch takes them: "0,3-5".
std::string array_indices(const std::vector<std::size_t>& numbers);

/// The script of each task. It becomes the program, so that what Slurm signals is the program.
std::string task_script(const std::vector<std::string>& program, const SweepDirectory& directory);

/// The number of the job that the sweep was handed to last, while Slurm still has tasks of it that wait or run.
/// Errors: kUnavailable: Slurm does not answer, or its programs are not there.
Result<std::optional<std::string>> active_job(const SweepDirectory& directory);

/// Hands the runs with these numbers to Slurm, and returns the job's. Errors: kUnavailable, with what sbatch says.
Result<std::string> submit(const SweepDirectory& directory, const std::vector<std::size_t>& numbers,
                           const SlurmOptions& options);

}  // namespace troupe::apps
