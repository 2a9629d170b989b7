#pragma once
// Several runs side by side: grouped by task (an environment) and setting (what their configurations say differently,
// the seed apart), each group with what its runs have come to. Made by `troupe compare` and `troupe sweep`; shown as a
// table (run/comparison_table.hpp), as curves and as a page (run/comparison_page.hpp).
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/run/recorded_run.hpp>
#include <troupe/run/statistics.hpp>

namespace troupe::apps {

/// What counts as having learnt a task: a return, or a share of the best mean final return that any setting has there.
struct Threshold {
  double value = 0.9;
  bool is_share = true;
};
/// "800", or "90%". Errors: kInvalidArgument.
Result<Threshold> parse_threshold(const std::string& text);
std::string to_string(const Threshold& threshold);

struct ComparisonOptions {
  std::vector<std::string> by;    ///< only these keys tell settings apart; empty: all that differ within a task
  std::vector<std::string> also;  ///< and these, whether they differ or not
  Threshold threshold;
  std::vector<std::int64_t> at;  ///< env steps at which the return is said
};

/// The runs of one task and one setting, and what they have come to. Numbers that cannot be said are NaN: a deviation
/// or an interval of one run, a return at env steps that not all runs have made. Intervals are 95 % bootstrap intervals
/// (run/statistics.hpp).
struct ComparedGroup {
  std::string task;     ///< of all tasks together: "all 18 tasks"
  std::string setting;  ///< "d4pg.sigma=0.2"; empty when nothing tells the runs apart
  std::vector<std::vector<std::vector<ReturnPoint>>> returns;  ///< by task: of each run
  std::vector<std::int64_t> seeds;                             ///< of the runs, in their order

  double mean = 0, std = 0, min = 0, max = 0, iqm = 0;  ///< of the runs' final returns
  Interval mean_interval, iqm_interval;
  double threshold = 0;     ///< of all tasks together NaN: each has its own
  std::size_t reached = 0;  ///< runs that came there
  /// Medians over all runs until an evaluation reached it; infinite when fewer than half did.
  double threshold_env_steps = 0, threshold_wall_s = 0;
  std::vector<double> at;  ///< means of the returns at ComparisonOptions::at
  double env_steps = 0, wall_s = 0, env_steps_per_s = 0, learner_steps_per_s = 0;  ///< means
};

struct Comparison {
  ComparisonOptions options;
  std::vector<std::string> keys;             ///< that tell the settings apart
  std::vector<std::string> pooled;           ///< that differ within a setting too, when options.by does not name them
  std::vector<std::string> tasks, settings;  ///< in the order of their first run
  std::vector<ComparedGroup> groups;         ///< task by task
  /// Of all tasks together, where there are several: a group for each setting, its runs resampled within each task.
  /// Returns are taken as they are, which says something when all have one scale, as the control suite's 0 to 1000.
  std::vector<ComparedGroup> totals;
  std::vector<std::string> versions, machines;  ///< of the runs, each once
  std::vector<std::string> unfinished;          ///< directories of runs that have not met a limit of their own
};

/// Errors: kInvalidArgument: no run; a directory twice; a key in `by` that no run has.
Result<Comparison> compare(std::span<const RecordedRun> runs, const ComparisonOptions& options);

/// The return at x, by linear interpolation between the evaluations before and after it. An end of the run no more than
/// 5 % away will do. NaN: the run has been evaluated nowhere near it.
double return_at(std::span<const ReturnPoint> returns, double ReturnPoint::*axis, double x);

/// The mean of a group's runs at places that all of them have, and their interquartile mean with its interval.
struct MeanCurve {
  struct Point {
    double x = 0, mean = 0, iqm = 0;
    Interval interval;  ///< NaN for one run
  };
  std::vector<Point> points;
};
MeanCurve mean_curve(const ComparedGroup& group, double ReturnPoint::*axis);

}  // namespace troupe::apps
