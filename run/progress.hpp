#pragma once
// What a person sees while a run lasts, as a line (run/progress_line.hpp).
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <troupe/core/metrics.hpp>
#include <troupe/run/progress_line.hpp>
#include <troupe/run/train_options.hpp>

namespace troupe::apps {

/// The limits of a replica group.
struct GroupLimits {
  std::int64_t steps = 0;
  std::int64_t batch_size = 0;  ///< images of a step; 0: not said
  std::int64_t replicas = 1;    ///< each with an input of its own
};

/// The limits of an agent, which ends with the first that it meets; 0 is no limit.
struct AgentLimits {
  std::string name = {};  ///< empty: the run has only this one
  std::int64_t max_env_steps = 0;
  std::int64_t max_learner_steps = 0;
};

/// The limits of a run, for the time that is left; 0 is no limit.
struct RunLimits {
  double max_minutes = 0;
  std::vector<AgentLimits> agents = {};              ///< the run lasts until all are done
  std::map<std::string, GroupLimits> replicas = {};  ///< and all groups
};

RunLimits limits_of(const actors::TrainOptions& options);

/// The newest value of every scalar and the newest evaluations, put into words. Pure.
class ProgressState {
 public:
  explicit ProgressState(RunLimits limits) : limits_(std::move(limits)) {}
  void update(const MetricRow& row);
  void update(const Evaluation& evaluation) { evaluated_[evaluation.source] = evaluation.values; }
  /// "1m05s (3m10s left)  return 812.3  env 12.3k (1.20k/s)  learner 1.54k (150/s)  replay 12.3k  staleness 4.2".
  /// An agent with a name has it in front of its parts. A run of replica groups has a part for each: "sngan 1.20k/2.00k
  /// (150/s, 9.60k images/s, input 31.0k) discriminator_loss 1.54 generator_loss 0.21 frechet_distance 12.1". This says
  /// how many images the group learns from in a second and how many its inputs alone could make, its losses, and what
  /// its evaluator says, but for judge_..., which is about the judge. A part appears when a row had its scalars. The
  /// last parts are left out when the line would be longer than columns_max.
  std::string line(std::size_t columns_max) const;
  /// Seconds until the nearest limit at the present rates; infinite without one.
  double left_s() const;
  /// How much of the run is done, 0 to 1, by the nearest limit; none without one.
  std::optional<double> share_done() const;
  double wall_s() const { return last_.wall_s; }
  /// The newest of the first agent that has been evaluated.
  std::optional<double> mean_return() const;

 private:
  double value(const std::string& name, double otherwise) const;
  std::string replica_part(const std::string& name, const GroupLimits& limits) const;
  /// How far an agent is, in its own steps. In a run with a single agent these are the steps of the row.
  double env_steps(const AgentLimits& agent) const;
  double learner_steps(const AgentLimits& agent) const;
  double left_s(const AgentLimits& agent) const;
  std::optional<double> mean_return(const AgentLimits& agent) const;

  RunLimits limits_;
  MetricRow last_;
  std::map<std::string, double> values_;
  std::map<std::string, std::vector<Scalar>> evaluated_;  ///< by source, the newest
};

/// Shows a ProgressState when it is time, and at once when an evaluation comes in, once there was a row.
class ProgressSink final : public MetricSink {
 public:
  ProgressSink(ProgressLine line, RunLimits limits) : line_(std::move(line)), state_(std::move(limits)) {}

  Status write(const MetricRow& row) override;
  Status record(const Evaluation& evaluation) override;
  Status flush() override { return {}; }
  void finish() { line_.finish(); }

 private:
  void draw();

  ProgressLine line_;
  ProgressState state_;
  bool began_ = false;
};

}  // namespace troupe::apps
