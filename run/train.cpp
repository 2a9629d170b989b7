#include <troupe/run/train.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include <troupe/actors/control/committed_cuts.hpp>
#include <troupe/actors/control/run_checkpoint.hpp>
#include <troupe/actors/control/runtime.hpp>
#include <troupe/actors/network/node_network.hpp>
#include <troupe/actors/roles/metrics_actor.hpp>
#include <troupe/actors/roles/replica_topology.hpp>
#include <troupe/actors/roles/step_account.hpp>
#include <troupe/actors/runtime/protocol.hpp>
#include <troupe/core/check.hpp>
#include <troupe/core/log.hpp>
#include <troupe/run/agent_topology.hpp>
#include <troupe/run/evaluate_part.hpp>
#include <troupe/run/node.hpp>
#include <troupe/run/run_topology.hpp>

namespace troupe::actors {
namespace {

constexpr const char* kWallCounter = "run/wall_ms";
/// A stop while the run starts waits no longer for all instances to be there: there is nothing to save yet.
constexpr Duration kStartPatience = std::chrono::seconds(2);
/// The end waits for one that is being restarted, and tries again when a node goes down in the cut; schedulers give it
/// 30 s.
constexpr Duration kLastCutPatience = std::chrono::seconds(5);
constexpr Duration kLastCutRetries = std::chrono::seconds(10);
constexpr Duration kFirstPause = std::chrono::milliseconds(20), kLongestPause = std::chrono::seconds(2);
/// A run that is complete has more time: a learner that was killed at its end starts anew and comes back.
constexpr Duration kLastCutOfCompleteRun = std::chrono::seconds(60);

/// What this process wrote last. Over nodes the learner's part is another node's, and is read back from disk.
struct LastCut {
  std::string path;
  std::vector<messages::TensorBytes> tensors;
  std::shared_ptr<const Cut> cut;  ///< owns the tensors' bytes
};

/// One call of train(), in the order in which things happen.
class Training {
 public:
  Training(const TrainOptions& options, const TrainHooks& hooks) : options_(options), hooks_(hooks) {}

  Result<TrainSummary> run() {
    TROUPE_TRY(open());
    TROUPE_ASSIGN(const std::optional<StopReason> interrupted, train());
    const auto saved = last_checkpoint(!interrupted);
    if (!saved.ok() && saved.error().code == Code::kNotFound && interrupted) {
      TrainSummary nothing{.stop_reason = *interrupted, .begun = false, .wall_s = earlier_wall_s_};
      runtime_->stop();
      return nothing;
    }
    TROUPE_ASSIGN(counters_, saved);
    const auto& counters = counters_;
    TrainSummary summary = sum_up(counters);
    summary.stop_reason = interrupted.value_or(completed_by(summary));
    if (interrupted == StopReason::kRequested) log::info("TRP-I001 stopping; checkpoint {} committed", newest());
    summary.wall_s = earlier_wall_s_ + seconds(runtime_->stop());
    runtime_.reset();  // the sink is ours alone from here
    network_.reset();
    // Roles went on while it was written: rows of that are of lost work, like those behind a crash.
    TROUPE_TRY(rewind_metrics(counters));

    TROUPE_TRY(write_last_row(summary));
    if (summary.stop_reason != StopReason::kRequested && !options_.agents.empty()) TROUPE_TRY(evaluate(summary));
    return summary;
  }

 private:
  /// A node that dies during a cut, or leaves, makes it fail; the next one is without that node, or with its successor.
  Result<std::vector<messages::Counter>> last_checkpoint(bool complete) {
    Duration give_up = runtime_->clock().now() + (complete ? kLastCutOfCompleteRun : kLastCutRetries);
    Duration pause = kFirstPause;
    bool asked = !complete;
    auto counters = runtime_->checkpoint(kStartPatience);
    const auto may_come = [&] {
      // A chief that goes on with its run has not met all nodes again yet; in a new run there is nothing to wait for.
      const Code code = counters.error().code;
      return code == Code::kUnavailable || (code == Code::kNotFound && hooks_.place != nullptr && earlier_wall_s_ > 0);
    };
    while (!counters.ok() && may_come() && runtime_->clock().now() < give_up) {
      if (!asked && hooks_.stop != nullptr && hooks_.stop->load(std::memory_order_relaxed)) {
        asked = true;
        give_up = std::min(give_up, runtime_->clock().now() + kLastCutRetries);
      }
      runtime_->wait(pause);  // what is in the way, a full disk, say, is not gone at once
      pause = std::min(2 * pause, kLongestPause);
      counters = runtime_->checkpoint(kLastCutPatience);
    }
    if (counters.ok()) return counters;
    return Error{counters.error().code,
                 fmt::format("the run {}, but its last checkpoint could not be made: {}",
                             complete ? "is complete" : "was to stop", counters.error().message)};
  }

  /// Builds the topology and the runtime, from the newest checkpoint if asked to.
  Status open() {
    std::optional<messages::OpenCheckpoint> checkpoint;
    if (hooks_.resume && hooks_.place == nullptr) {
      TROUPE_ASSIGN(checkpoint, messages::open_newest_checkpoint(hooks_.checkpoint_dir));
      for (const auto& rejected : checkpoint->rejected) {
        log::warn("TRP-W603 checkpoint {} is damaged and not used: {}", rejected.name, rejected.reason);
        damaged_.push_back(rejected.name);
      }
      log::info("resuming from {}", checkpoint->path);
      TROUPE_ASSIGN(const std::int64_t wall_ms, checkpoint->counter(kWallCounter));
      earlier_wall_s_ = static_cast<double>(wall_ms) / 1000;
      TROUPE_TRY(rewind_metrics(checkpoint->counters));
    }
    earlier_wall_s_ = std::max(earlier_wall_s_, hooks_.recorded_wall_s);
    if (hooks_.place != nullptr) return open_place();
    TROUPE_ASSIGN(topology_, run_topology(options_, {*hooks_.metrics, hooks_.pictures}, earlier_wall_s_));
    if (hooks_.change_topology) hooks_.change_topology(topology_);
    RuntimeOptions runtime;
    runtime.seed = options_.seed;
    runtime.deterministic = options_.deterministic;
    runtime.run_directory = hooks_.checkpoint_dir.parent_path();
    runtime.report_period = from_seconds(options_.metrics.every_s);
    runtime.checkpoint_period = from_seconds(options_.checkpoint.every_s);
    runtime.write_cut = [this](std::shared_ptr<const Cut> cut) { return write(std::move(cut)); };
    tell_status(runtime);
    if (checkpoint) {
      TROUPE_ASSIGN(runtime.resume_from, to_cut(topology_, *checkpoint));
    }
    TROUPE_ASSIGN(runtime_, Runtime::make(topology_, std::move(runtime)));
    return {};
  }

  /// The same as the chief of a run over nodes. If the run is older than this process, its time goes on.
  Status open_place() {
    TROUPE_ASSIGN(EarlierCuts earlier, earlier_cuts(*hooks_.place));
    if (const CommittedCut& cut = earlier.newest; cut.number != 0) {
      TROUPE_ASSIGN(const auto part, open_part(hooks_.checkpoint_dir, kChiefNode, cut.number, ""));
      TROUPE_ASSIGN(const std::int64_t wall_ms, part.counter(kWallCounter));
      earlier_wall_s_ = std::max(earlier_wall_s_, static_cast<double>(wall_ms) / 1000);
      if (hooks_.place->resume) {
        std::vector<messages::Counter> counters = part.counters;
        // Where the other parts are on other hosts, the metrics role's numbers must do, which may be a moment older.
        if (const auto parts = open_parts(hooks_.checkpoint_dir, cut); parts.ok()) {
          for (const auto& other : *parts)
            counters.insert(counters.end(), other.counters.begin(), other.counters.end());
        }
        TROUPE_TRY(rewind_metrics(counters));
      }
    }
    TROUPE_ASSIGN(topology_, node_topology(options_, {*hooks_.metrics, hooks_.pictures}, earlier_wall_s_));
    TROUPE_ASSIGN(network_, make_network(*hooks_.place, topology_));
    log::info("the chief listens on {}", transport::to_string(network_->address()));
    auto more = [this] { return std::vector<messages::Counter>{{kWallCounter, wall_ms()}}; };
    TROUPE_ASSIGN(RuntimeOptions runtime,
                  node_runtime(*hooks_.place, options_, topology_, *network_, std::move(earlier), more));
    tell_status(runtime);
    TROUPE_ASSIGN(runtime_, Runtime::make(topology_, std::move(runtime)));
    return {};
  }

  void tell_status(RuntimeOptions& runtime) const {
    if (!hooks_.tell_status) return;
    runtime.tell_status = hooks_.tell_status;
    runtime.status_period = from_seconds(hooks_.status_every_s);
  }

  /// The whole run goes on from the checkpoint with these counters, or ends with it: what was recorded of more is lost
  /// work.
  Status rewind_metrics(std::span<const messages::Counter> counters) {
    const auto of_metrics = [&](std::string_view name) {
      const auto found =
          std::ranges::find(counters, fmt::format("{}/{}", kMetricsRole, name), &messages::Counter::name);
      return found == counters.end() ? std::optional<std::int64_t>() : found->value;
    };
    RunPoint to{.wall_s = earlier_wall_s_};
    if (const auto ms = of_metrics(kNewestRowMs)) to.wall_s = static_cast<double>(*ms) / 1000;
    const TrainSummary sums = sum_up(counters);
    to.env_steps = sums.env_steps;
    to.learner_steps = std::max(sums.learner_steps, of_metrics(kKnownLearnerSteps).value_or(0));
    const auto known = [&](const std::string& role) { return of_metrics(kKnownStepsOf + role).value_or(0); };
    for (std::size_t i = 0; i < options_.agents.size(); ++i) {
      const AgentOptions& agent = options_.agents[i];
      const std::int64_t steps = std::max(sums.agents[i].learner_steps, known(role_of(agent, kLearnerRole)));
      for (const char* const source : {kEvaluatorRole, kFinalEvaluation}) {
        to.evaluated_steps[role_of(agent, source)] = steps;
      }
    }
    for (const ReplicaRun& run : options_.replicas) {
      const std::string& name = run.group.name;
      to.evaluated_steps[evaluator_name(run.group)] = std::max(replica_summary(name, counters).steps, known(name));
    }
    return hooks_.metrics->rewind(to);
  }

  /// Empty when a role has completed the run.
  Result<std::optional<StopReason>> train() {
    const double limit_s = options_.max_minutes * 60;
    std::optional<StopReason> interrupted;
    const Result<Runtime::Ended> run = runtime_->run([&] {
      if (hooks_.stop != nullptr && hooks_.stop->load(std::memory_order_relaxed)) {
        interrupted = StopReason::kRequested;
      } else if (limit_s > 0 && wall() >= limit_s) {
        interrupted = StopReason::kMaxMinutes;
      }
      return interrupted.has_value();
    });
    if (hooks_.over != nullptr) *hooks_.over = true;
    TROUPE_ASSIGN(const Runtime::Ended ended, run);
    if (ended == Runtime::Ended::kStopped) return {StopReason::kRequested};
    return ended == Runtime::Ended::kInterrupted ? interrupted : std::nullopt;
  }

  /// Runs on the checkpointer's thread; nobody else touches last_ until checkpoint() has returned.
  Status write(std::shared_ptr<const Cut> cut) {
    messages::CheckpointContents contents = to_contents(topology_, *cut, {{kWallCounter, wall_ms()}});
    contents.run_id = hooks_.run_id;
    last_ = {};
    contents.learner_step = sum_up(contents.counters).learner_steps;
    last_.tensors = contents.tensors;
    last_.cut = std::move(cut);
    messages::CheckpointWriteOptions where{hooks_.checkpoint_dir.string(), static_cast<int>(options_.checkpoint.keep),
                                           damaged_};
    TROUPE_ASSIGN(last_.path, messages::write_checkpoint(where, contents));
    log::debug("checkpoint {}", last_.path);
    return {};
  }

  /// The newest checkpoint's name: its folder, or over nodes what its parts are called.
  std::string newest() const {
    if (hooks_.place == nullptr) return last_.path;
    const auto cut = newest_cut(hooks_.checkpoint_dir);
    return cut.ok() ? cut_name(cut->number) : cut.error().message;
  }

  /// Totals of the run, from the counters of all instances in a checkpoint.
  TrainSummary sum_up(std::span<const messages::Counter> counters) const {
    TrainSummary sums;
    for (const AgentOptions& agent : options_.agents) {
      const std::string actor = role_of(agent, kActorRole);
      AgentSummary& of = sums.agents.emplace_back(AgentSummary{.name = agent.name, .env = agent.env});
      of.env_steps = total_env_steps(counters, agent.name, actor, kMetricsRole);
      of.learner_steps = replica_summary(role_of(agent, kLearnerRole), counters).steps;
      sums.env_steps += of.env_steps;
      sums.learner_steps += of.learner_steps;
    }
    for (const ReplicaRun& run : options_.replicas) {
      sums.replicas.push_back(replica_summary(run.group.name, counters));
      if (options_.agents.empty()) sums.learner_steps += sums.replicas.back().steps;
    }
    return sums;
  }

  /// Which limit a run has met of which nobody asked to stop: of several agents the first one's.
  StopReason completed_by(const TrainSummary& summary) const {
    if (options_.agents.empty()) {
      return options_.replicas.empty() ? StopReason::kRolesDone : StopReason::kReplicaSteps;
    }
    const std::int64_t most = options_.agents.front().max_learner_steps;
    const bool learned = most > 0 && summary.agents.front().learner_steps >= most;
    return learned ? StopReason::kMaxLearnerSteps : StopReason::kMaxEnvSteps;
  }

  /// A run may be shorter than a metrics period, and ends between two rows in any case.
  Status write_last_row(const TrainSummary& summary) {
    MetricRow row{summary.wall_s, summary.env_steps, summary.learner_steps};
    for (const ReplicaSummary& group : summary.replicas) {
      row.scalars.push_back({group.name + "/step", static_cast<double>(group.steps)});
      for (const Scalar& metric : group.metrics) row.scalars.push_back({group.name + "/" + metric.name, metric.value});
    }
    return hooks_.metrics->write(row);
  }

  /// Of the parameters of each agent in the last checkpoint, with start states of their own.
  Status evaluate(TrainSummary& summary) {
    std::vector<messages::OpenCheckpoint> checkpoint;
    if (hooks_.place != nullptr) {
      TROUPE_ASSIGN(checkpoint, open_run_checkpoint(hooks_.checkpoint_dir));
    } else {  // it is still in memory
      messages::OpenCheckpoint& whole = checkpoint.emplace_back();
      whole.path = last_.path;
      whole.tensors = last_.tensors;
      whole.counters = counters_;
    }
    for (std::size_t i = 0; i < options_.agents.size(); ++i) {
      const AgentOptions& agent = options_.agents[i];
      AgentSummary& of = summary.agents[i];
      TROUPE_ASSIGN(const TrainedPart part, read_part(options_, checkpoint, role_of(agent, kLearnerRole)));
      const auto values = [&](const learner::ParamLayout& layout) { return group_values(part, layout); };
      Evaluation evaluation{.wall_s = summary.wall_s,
                            .source = role_of(agent, kFinalEvaluation),
                            .step = of.learner_steps,
                            .env_steps = of.env_steps};
      auto evaluated = evaluate_policy(agent, options_.seed, values, hooks_.stop);
      if (!evaluated.ok() && evaluated.error().code == Code::kCancelled) return {};  // the last one of its own stays
      TROUPE_ASSIGN(evaluation.values, std::move(evaluated));
      TROUPE_TRY(hooks_.metrics->record(evaluation));
      of.final_evaluation = std::move(evaluation);
    }
    return {};
  }

  std::int64_t wall_ms() const { return static_cast<std::int64_t>(wall() * 1000); }
  double wall() const { return earlier_wall_s_ + seconds(runtime_->clock().now()); }

  const TrainOptions& options_;
  const TrainHooks& hooks_;
  Topology topology_;
  double earlier_wall_s_ = 0;
  std::vector<std::string> damaged_;
  LastCut last_;
  std::vector<messages::Counter> counters_;  ///< of the last checkpoint
  std::unique_ptr<NodeNetwork> network_;
  std::unique_ptr<Runtime> runtime_;
};

}  // namespace

Result<TrainSummary> train(const TrainOptions& options, const TrainHooks& hooks) {
  TROUPE_CHECK(hooks.metrics != nullptr, "train: no metric sink");
  return Training(options, hooks).run();
}

}  // namespace troupe::actors
