#pragma once
// The shipped topology: D4PG (Barth-Maron et al. 2018) as the picture in docs/architecture.md draws it.
#include <cstdint>

#include <troupe/actors/roles/acting.hpp>
#include <troupe/actors/roles/episode_runner.hpp>
#include <troupe/actors/runtime/topology.hpp>
#include <troupe/algorithms/acting/exploration.hpp>
#include <troupe/algorithms/d4pg/options.hpp>
#include <troupe/core/error.hpp>
#include <troupe/core/metrics.hpp>
#include <troupe/envs/environment.hpp>
#include <troupe/learner/replicate/make_replicator.hpp>
#include <troupe/replay/adder.hpp>
#include <troupe/run/train_options.hpp>

namespace troupe::actors {

/// Names of the roles.
inline constexpr const char* kActorRole = "actor";
inline constexpr const char* kInferenceRole = "inference";  ///< there when actors.inference is "server"
inline constexpr const char* kReplayRole = "replay";
inline constexpr const char* kLearnerRole = "learner";
inline constexpr const char* kParametersRole = "parameters";
inline constexpr const char* kEvaluatorRole = "evaluator";
inline constexpr const char* kMetricsRole = "metrics";

/// What the networks are, for everyone who builds them: learner, env actors, evaluator, whoever renders.
learner::d4pg::Options d4pg_options(const TrainOptions& options, const envs::EnvSpec& env);

/// How D4PG acts, and what it makes of it: what env actors, evaluator, replay and whoever renders have in common.
struct D4pgActing {
  envs::MakeEnvironment make_environment;  ///< flattened: vectors of float32
  learner::PolicyColumns columns;
  MakePolicy make_policy;
  acting::MakeExploration explores, greedy;
  replay::MakeAdder adder;
  Signature item;  ///< a row of replay
};
D4pgActing d4pg_acting(const TrainOptions& options, const envs::EnvSpec& env);
/// The evaluator's episodes.
EpisodeRunnerOptions evaluation_episodes(const TrainOptions& options, const D4pgActing& acting);
/// How the learners run. Errors: kInvalidArgument, naming the option.
Result<learner::ReplicatorOptions> learner_replicator(const TrainOptions& options);

/// How a role is restarted that may be, as [supervisor] says; given up while others of its role live.
RestartPolicy restart_policy(const TrainOptions& options);

/// The metrics role of a run, with or without D4PG: it takes the reports of all roles. sink, wall_s: as below.
RoleSpec metrics_role(const TrainOptions& options, MetricSink& sink, double wall_s);

/// sink outlives the topology's roles; wall_s: seconds that earlier starts of the run took.
/// Errors: kInvalidArgument or those of the parts, naming the option.
Result<Topology> d4pg_topology(const TrainOptions& options, const envs::EnvSpec& env, MetricSink& sink, double wall_s);

}  // namespace troupe::actors
