#include <troupe/actors/train.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include <troupe/actors/d4pg_topology.hpp>
#include <troupe/actors/episode_runner.hpp>
#include <troupe/actors/metrics_actor.hpp>
#include <troupe/actors/protocol.hpp>
#include <troupe/actors/run_checkpoint.hpp>
#include <troupe/actors/runtime.hpp>
#include <troupe/core/check.hpp>
#include <troupe/core/log.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/learner/d4pg/learner.hpp>

namespace troupe::actors {
namespace {

constexpr const char* kWallCounter = "run/wall_ms";

/// What the last written checkpoint says about the run; the summary is made of it.
struct LastCut {
  std::int64_t env_steps = 0;
  std::int64_t learner_steps = 0;
  std::vector<messages::TensorBytes> tensors;
  std::shared_ptr<const Cut> cut;  ///< owns the tensors' bytes
};

/// One call of train(), in the order in which things happen.
class Training {
 public:
  Training(const TrainOptions& options, const TrainHooks& hooks) : options_(options), hooks_(hooks) {}

  Result<TrainSummary> run() {
    TROUPE_ASSIGN(const auto environment, envs::make_environment(options_.env, options_.seed));
    spec_ = environment->spec();
    TROUPE_TRY(open());
    TROUPE_ASSIGN(const std::optional<StopReason> interrupted, train());
    TROUPE_TRY(runtime_->checkpoint());
    const bool learned = options_.max_learner_steps > 0 && last_.learner_steps >= options_.max_learner_steps;
    const StopReason reason = interrupted.value_or(learned ? StopReason::kMaxLearnerSteps : StopReason::kMaxEnvSteps);
    const double wall_s = earlier_wall_s_ + seconds(runtime_->stop());
    runtime_.reset();  // the sink is ours alone from here

    TrainSummary summary;
    summary.stop_reason = reason;
    summary.wall_s = wall_s;
    summary.env_steps = last_.env_steps;
    summary.learner_steps = last_.learner_steps;
    if (reason != StopReason::kRequested) {
      TROUPE_ASSIGN(summary.final_evaluation, evaluate(summary));
      TROUPE_TRY(hooks_.metrics->write(evaluation_row(*summary.final_evaluation)));
    }
    return summary;
  }

 private:
  /// Builds the topology and the runtime, from the newest checkpoint if asked to.
  Status open() {
    std::optional<messages::OpenCheckpoint> checkpoint;
    if (hooks_.resume) {
      TROUPE_ASSIGN(checkpoint, messages::open_newest_checkpoint(hooks_.checkpoint_dir));
      for (const auto& rejected : checkpoint->rejected) {
        log::warn("checkpoint {} is damaged and not used: {}", rejected.name, rejected.reason);
        damaged_.push_back(rejected.name);
      }
      log::info("resuming from {}", checkpoint->path);
      TROUPE_ASSIGN(const std::int64_t wall_ms, checkpoint->counter(kWallCounter));
      earlier_wall_s_ = static_cast<double>(wall_ms) / 1000;
    }
    TROUPE_ASSIGN(topology_, d4pg_topology(options_, spec_, *hooks_.metrics, earlier_wall_s_));
    RuntimeOptions runtime;
    runtime.seed = options_.seed;
    runtime.deterministic = options_.deterministic;
    runtime.report_period = from_seconds(options_.metrics.every_s);
    runtime.checkpoint_period = from_seconds(options_.checkpoint.every_s);
    runtime.write_cut = [this](std::shared_ptr<const Cut> cut) { return write(std::move(cut)); };
    if (checkpoint) {
      TROUPE_ASSIGN(runtime.resume_from, to_cut(topology_, *checkpoint));
    }
    TROUPE_ASSIGN(runtime_, Runtime::make(topology_, std::move(runtime)));
    return {};
  }

  /// Empty when a role has completed the run.
  Result<std::optional<StopReason>> train() {
    const double limit_s = options_.max_minutes * 60;
    std::optional<StopReason> interrupted;
    TROUPE_ASSIGN(const Runtime::Ended ended, runtime_->run([&] {
      if (hooks_.stop != nullptr && hooks_.stop->load(std::memory_order_relaxed)) {
        interrupted = StopReason::kRequested;
      } else if (limit_s > 0 && wall() >= limit_s) {
        interrupted = StopReason::kMaxMinutes;
      }
      return interrupted.has_value();
    }));
    if (ended == Runtime::Ended::kStopped) return {StopReason::kRequested};
    return ended == Runtime::Ended::kInterrupted ? interrupted : std::nullopt;
  }

  /// Runs on the checkpointer's thread; nobody else touches last_ until checkpoint() has returned.
  Status write(std::shared_ptr<const Cut> cut) {
    const auto wall_ms = static_cast<std::int64_t>(wall() * 1000);
    messages::CheckpointContents contents = to_contents(topology_, *cut, {{kWallCounter, wall_ms}});
    contents.run_id = hooks_.checkpoint_dir.parent_path().filename().string();
    last_ = {};
    for (const messages::Counter& counter : contents.counters) {
      if (counter.name.starts_with(kActorRole) && counter.name.ends_with("/env_steps"))
        last_.env_steps += counter.value;
      if (counter.name == fmt::format("{}/steps", kLearnerRole)) last_.learner_steps = counter.value;
    }
    contents.learner_step = last_.learner_steps;
    last_.tensors = contents.tensors;
    last_.cut = std::move(cut);
    messages::CheckpointWriteOptions where{hooks_.checkpoint_dir.string(), static_cast<int>(options_.checkpoint.keep),
                                           damaged_};
    TROUPE_ASSIGN(const std::string path, messages::write_checkpoint(where, contents));
    log::debug("checkpoint {}", path);
    return {};
  }

  /// Of the parameters in the last checkpoint, with start states of their own.
  Result<Evaluation> evaluate(const TrainSummary& summary) {
    const learner::d4pg::Options d4pg = d4pg_options(options_, spec_);
    auto make_policy = [&d4pg](std::int64_t rows) { return learner::d4pg::make_policy(d4pg, {.rows = rows}); };
    TROUPE_ASSIGN(const auto policy, make_policy(1));
    TROUPE_ASSIGN(const auto values, group_values(last_.tensors, kLearnerRole, policy->parameters().layout()));
    TROUPE_ASSIGN(auto runner, EpisodeRunner::make(options_.env, options_.evaluator.episodes, make_policy));
    TROUPE_TRY(runner->begin(values, policy->parameters().fingerprint(), derive_seed(options_.seed, "final", 0)));
    TROUPE_TRY(runner->advance(spec_.episode_steps));
    Evaluation evaluation = summarize(runner->returns());
    evaluation.wall_s = summary.wall_s;
    evaluation.env_steps = summary.env_steps;
    evaluation.learner_steps = summary.learner_steps;
    return evaluation;
  }

  double wall() const { return earlier_wall_s_ + seconds(runtime_->clock().now()); }

  const TrainOptions& options_;
  const TrainHooks& hooks_;
  envs::EnvSpec spec_;
  Topology topology_;
  double earlier_wall_s_ = 0;
  std::vector<std::string> damaged_;
  LastCut last_;
  std::unique_ptr<Runtime> runtime_;
};

}  // namespace

Result<TrainSummary> train(const TrainOptions& options, const TrainHooks& hooks) {
  TROUPE_CHECK(hooks.metrics != nullptr, "train: no metric sink");
  return Training(options, hooks).run();
}

}  // namespace troupe::actors
