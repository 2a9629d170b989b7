#pragma once
// What a run reports: rows of named scalars at a point of progress. Actors make them, the metrics actor gathers them,
// and sinks (CSV, TensorBoard, the progress line: apps/) write them.
#include <cstdint>
#include <string>
#include <vector>

#include <troupe/core/error.hpp>

namespace troupe {

struct Scalar {
  std::string name;  ///< "learner/critic_loss", "evaluator/return", "replay/items": role first, then the quantity
  double value = 0;
};

/// A row at one moment. Not every row has every scalar.
struct MetricRow {
  double wall_s = 0;               ///< seconds since the start of this run, by the run's clock, which never goes back
  std::int64_t env_steps = 0;      ///< over all env actors, since the first start of the run
  std::int64_t learner_steps = 0;  ///< of the learner, when the row was made
  std::vector<Scalar> scalars;
};

/// Whether a row tells of more than had been done at `to`. Of two rows only the later one can, unless a part of the run
/// went back in between.
inline bool beyond(const MetricRow& row, const MetricRow& to) {
  return row.env_steps > to.env_steps || (row.wall_s > to.wall_s && row.learner_steps > to.learner_steps);
}

/// A place that rows go to. Called from one thread at a time; may block for a file write, never for ever.
class MetricSink {
 public:
  virtual ~MetricSink() = default;
  /// The run goes on from a checkpoint with the counts of `to`, or ends with it: rows that lie beyond() it tell of lost
  /// work, which is done again or not at all. A sink that cannot take rows back does nothing.
  virtual Status rewind(const MetricRow& /*to*/) { return {}; }
  virtual Status write(const MetricRow& row) = 0;
  /// Everything written so far is on its way to disk when this returns.
  virtual Status flush() = 0;
};

}  // namespace troupe
