#pragma once
// How far the runs of a sweep are that one process has in hand, and how long they still take: those under way by what
// they record, those to come by how long others take. `troupe sweep` shows it.
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/core/clock.hpp>
#include <troupe/run/followed_csv.hpp>
#include <troupe/run/progress.hpp>
#include <troupe/run/run_directory.hpp>

namespace troupe::apps {

/// Not thread-safe.
class SweepProgress {
 public:
  /// jobs: runs at a time, at least 1. Borrows the clock, from whose time now the sweep counts.
  SweepProgress(std::size_t jobs, const Clock& clock) : jobs_(jobs), clock_(clock), begun_(clock.now()) {}

  /// A run that is to be done. Runs are begun in the order in which they were added.
  void add(std::string name, std::string config, RunDirectory directory, RunLimits limits);
  void begins(std::size_t number);
  /// done: it has met its limits, so that others may take as long.
  void ends(std::size_t number, bool done);
  /// Reads what the runs under way have recorded since.
  void look();

  /// Seconds until the last run ends, with as many at a time as there are jobs. A run that has not begun takes as long
  /// as the mean of those of its configuration, else of all, that have ended here or are under way. Nothing: not known.
  std::optional<double> left_s() const;
  /// "12m04s (about 20m00s left)  cartpole_swingup, seed 4: 38 %, return 812.3". Runs that do not fit are
  /// counted.
  std::string line(std::size_t columns_max) const;

 private:
  struct Run {
    std::string name, config;
    RunDirectory directory;
    RunLimits limits;
    enum class State { kWaits, kRuns, kEnded } state = State::kWaits;
    Duration begun{};
    std::optional<double> took_s = {};                            ///< of one that has met its limits
    std::unique_ptr<FollowedCsv> metrics = {}, evaluations = {};  ///< while it runs
    std::optional<ProgressState> recorded = {};
  };
  std::optional<double> left_s(const Run& run) const;
  std::optional<double> takes_s(const Run& run) const;
  std::string in_words(const Run& run) const;

  std::size_t jobs_;
  const Clock& clock_;
  Duration begun_;
  std::vector<Run> runs_;
};

}  // namespace troupe::apps
