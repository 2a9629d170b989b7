#pragma once
// What a run reports: rows of named scalars, one a metrics period, and evaluations, each of which is an event of its
// own. Actors make them, the metrics actor gathers them, and sinks (CSV, TensorBoard, the progress line: run/) write
// them. docs/metrics.md explains every name.
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/core/error.hpp>

namespace troupe {

struct Scalar {
  std::string name;  ///< "learner/critic_loss", "replay/items": role first, then the quantity
  double value = 0;
};

/// The value of that name, if there is one.
inline std::optional<double> find_scalar(std::span<const Scalar> scalars, std::string_view name) {
  const auto found = std::ranges::find(scalars, name, &Scalar::name);
  return found == scalars.end() ? std::nullopt : std::optional(found->value);
}

/// What went through one port of a role since the row before, over all instances of the role.
struct PortTraffic {
  std::string role;
  std::string port;
  double frames_per_s = 0;
  double bytes_per_s = 0;
  double waiting = 0;        ///< instances that were idle with this port empty, or without room in it; a mean over time
  double refused_per_s = 0;  ///< frames that were malformed or did not fit
  std::optional<double> depth;  ///< frames that wait in it now, a mean over the instances; an outlet has none
};

/// A row at one moment. Not every row has every scalar.
struct MetricRow {
  double wall_s = 0;               ///< seconds since the start of this run, by the run's clock, which never goes back
  std::int64_t env_steps = 0;      ///< over all env actors, since the first start of the run
  std::int64_t learner_steps = 0;  ///< of the learner, when the row was made
  std::vector<Scalar> scalars = {};
  std::vector<PortTraffic> ports = {};
};

/// What was found about the parameters of one training step. A run records each (source, step) once.
struct Evaluation {
  double wall_s = 0;                ///< when it was recorded
  std::string source;               ///< role that evaluated; kFinalEvaluation
  std::int64_t step = 0;            ///< that made the parameters
  std::int64_t env_steps = 0;       ///< of the run, when it was recorded
  std::vector<Scalar> values = {};  ///< "return", "accuracy", ...
};
/// Source of the evaluation that a run with an environment makes itself, after its last step.
inline constexpr const char* kFinalEvaluation = "final";

/// How far a run is at a checkpoint.
struct RunPoint {
  double wall_s = 0;
  std::int64_t env_steps = 0;
  std::int64_t learner_steps = 0;
  std::map<std::string, std::int64_t> evaluated_steps = {};  ///< by source of evaluations: steps of what it evaluates
};

/// Whether a row tells of more than had been done at `to`. Of two rows only the later one can, unless a part of the run
/// went back in between.
inline bool beyond(const MetricRow& row, const RunPoint& to) {
  return row.env_steps > to.env_steps || (row.wall_s > to.wall_s && row.learner_steps > to.learner_steps);
}
/// Whether the steps whose parameters were evaluated are undone when the run goes back to `to`.
inline bool beyond(const Evaluation& evaluation, const RunPoint& to) {
  const auto steps = to.evaluated_steps.find(evaluation.source);
  return steps != to.evaluated_steps.end() && evaluation.step > steps->second && evaluation.wall_s > to.wall_s;
}

/// A place that rows and evaluations go to. Called from one thread at a time; may block for a file write, never for
/// ever. What a sink has no use for it leaves alone.
class MetricSink {
 public:
  virtual ~MetricSink() = default;
  /// The run goes on from a checkpoint, or ends with it: what lies beyond() it tells of lost work, which is done again
  /// or not at all. A sink that cannot take anything back does nothing.
  virtual Status rewind(const RunPoint& /*to*/) { return {}; }
  virtual Status write(const MetricRow& row) = 0;
  virtual Status record(const Evaluation& /*evaluation*/) { return {}; }
  /// Everything written so far is on its way to disk when this returns.
  virtual Status flush() = 0;
};

}  // namespace troupe
