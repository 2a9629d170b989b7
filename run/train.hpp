#pragma once
// One training run from start to end: builds the topology for the options, runs it until a limit is met or
// somebody asks for a stop, and leaves a checkpoint. The one call between apps/ and the actors.
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/actors/roles/replica_results.hpp>
#include <troupe/core/error.hpp>
#include <troupe/core/metrics.hpp>
#include <troupe/core/picture.hpp>
#include <troupe/run/train_options.hpp>

namespace troupe::actors {

struct NodePlace;
struct Topology;

enum class StopReason { kMaxMinutes, kMaxEnvSteps, kMaxLearnerSteps, kReplicaSteps, kRolesDone, kRequested };

constexpr std::string_view to_string(StopReason reason) {
  switch (reason) {
    case StopReason::kMaxMinutes:
      return "max_minutes";
    case StopReason::kMaxEnvSteps:
      return "max_env_steps";
    case StopReason::kMaxLearnerSteps:
      return "max_learner_steps";
    case StopReason::kReplicaSteps:
      return "replica steps";
    case StopReason::kRolesDone:
      return "roles done";
    case StopReason::kRequested:
      return "stop requested";
  }
  return "unknown";
}

/// What an agent has come to.
struct AgentSummary {
  std::string name;  ///< AgentOptions::name
  std::string env;
  std::int64_t env_steps = 0;
  std::int64_t learner_steps = 0;
  /// The evaluation of its last parameters. There is none when a stop was requested, since nobody waits for it then.
  std::optional<Evaluation> final_evaluation = {};
};

struct TrainSummary {
  StopReason stop_reason = StopReason::kRequested;
  /// False: it was stopped before all of it had come up. Nothing was saved then, and the other fields say nothing.
  bool begun = true;
  /// Counted over all starts of the run, so a resumed run goes on from its checkpoint's numbers.
  double wall_s = 0;
  std::int64_t env_steps = 0;            ///< of all agents
  std::int64_t learner_steps = 0;        ///< of all agents; without any, the steps of all replica groups
  std::vector<AgentSummary> agents;      ///< in the order of the options
  std::vector<ReplicaSummary> replicas;  ///< one for each group, in the order of the options
};

/// What the caller lends to the run. All pointers must outlive the call.
struct TrainHooks {
  /// Set by anybody (a signal handler) to end the run: it checkpoints and returns within a few seconds.
  const std::atomic<bool>* stop = nullptr;
  /// Receives every row and evaluation, from one thread at a time; docs/metrics.md explains them. An error that it
  /// returns ends the run. An evaluation may come again when the run was interrupted, see FanOut (run/fan_out.hpp).
  /// wall_s counts over all starts of the run. When a whole run goes on from a checkpoint, rewind() comes first and
  /// takes back what was recorded of lost work; a chief that goes on with its run has lost nothing. The last row has
  /// the counts of the last checkpoint, and what each replica group's last step said.
  MetricSink* metrics = nullptr;
  /// The run's clock at the newest row of an earlier start. The clock goes on from there at least, however old the
  /// checkpoint is.
  double recorded_wall_s = 0;
  /// Receives what evaluators show, on their threads; null: nobody wants it.
  PictureSink* pictures = nullptr;
  /// Where checkpoints go; made if absent.
  std::filesystem::path checkpoint_dir;
  /// The run's id in its checkpoints: a safe_name() (core/text.hpp).
  std::string run_id = "run";
  /// Go on from the newest good checkpoint in checkpoint_dir instead of starting afresh.
  bool resume = false;
  /// Gets the run as its chief sees it, as JSON (actors/control/run_status.hpp), each status_every_s, and once from a
  /// deterministic run. Called by the thread that called train(). Empty: nobody wants it.
  std::function<void(std::string status)> tell_status = nullptr;
  double status_every_s = 1;
  /// This process is the chief of a run over nodes; null: it is the whole run. With a place, place->resume decides.
  const NodePlace* place = nullptr;
  /// Set when the run has ended, well or not: whatever train() returns then, starting it again would find it over.
  bool* over = nullptr;
  /// Changes the topology of a run within this process before it is checked: tests put faults into roles.
  std::function<void(Topology&)> change_topology = nullptr;
};

/// Runs. Blocks the calling thread until the end. Errors: kNotFound (environment; no checkpoint to resume from),
/// kShapeMismatch (the checkpoint is of another environment or network), kCorrupt (no good checkpoint is left),
/// kIo, and whatever made an actor fail for good. Before an error is returned everything that was started has ended.
Result<TrainSummary> train(const TrainOptions& options, const TrainHooks& hooks);

}  // namespace troupe::actors
