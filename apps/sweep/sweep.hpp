#pragma once
// A sweep at work: starts the runs that have not ended yet on this machine, says what becomes of each, and writes the
// table and the page of those that have ended (`troupe sweep`).
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <troupe/apps/sweep/sweep_directory.hpp>
#include <troupe/core/error.hpp>
#include <troupe/run/registry.hpp>

namespace troupe::apps {

/// Numbers of runs (in SweepPlan::runs) that have not met their limits yet.
std::vector<std::size_t> unfinished(const SweepDirectory& directory, const SweepPlan& plan);

/// Says which of these runs failed when they were tried last, and how.
void say_failures(const SweepDirectory& directory, const SweepPlan& plan, const std::vector<std::size_t>& numbers);

struct SweepOutcome {
  std::size_t finished = 0;  ///< of all runs of the sweep, now
  std::size_t failed = 0;    ///< of those that were started
  bool stopped = false;      ///< somebody asked for the end
};

/// Runs `numbers`, `jobs` at a time, each as a process of this program: from its newest checkpoint if it has one. Shows
/// how far they are, says a line for each that ends, and writes the results anew with each that has met its limits.
/// Blocks; takes SIGINT, SIGTERM and SIGHUP: all runs make a checkpoint then, and it returns. Errors: kIo.
Result<SweepOutcome> run_here(const SweepDirectory& directory, const RecordedSweep& sweep, const Registry& registry,
                              const std::vector<std::size_t>& numbers, std::size_t jobs);

/// Writes table.csv, table.md, sweep.html and curves/ of the runs that have met their limits, and returns what they
/// say; nothing while there are none. Only one process at a time does, others wait for it, for a minute at most.
/// Errors: those of reading a run, kIo, kUnavailable.
Result<std::optional<Comparison>> write_results(const SweepDirectory& directory, const RecordedSweep& sweep,
                                                const Registry& registry);

}  // namespace troupe::apps
