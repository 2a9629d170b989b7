#include <troupe/run/d4pg_topology.hpp>

#include <fmt/format.h>

#include <algorithm>

#include <troupe/actors/roles/bad_gradient.hpp>
#include <troupe/actors/roles/env_actor.hpp>
#include <troupe/actors/roles/evaluation.hpp>
#include <troupe/actors/roles/evaluator.hpp>
#include <troupe/actors/roles/gpu_replay_feed.hpp>
#include <troupe/actors/roles/inference_actor.hpp>
#include <troupe/actors/roles/metrics_actor.hpp>
#include <troupe/actors/roles/parameter_store.hpp>
#include <troupe/actors/roles/policy_publication.hpp>
#include <troupe/actors/roles/replay_actor.hpp>
#include <troupe/actors/roles/replay_feed.hpp>
#include <troupe/actors/roles/replica_topology.hpp>
#include <troupe/actors/roles/trainer.hpp>
#include <troupe/algorithms/acting/gaussian_noise.hpp>
#include <troupe/algorithms/d4pg/networks.hpp>
#include <troupe/algorithms/d4pg/policy.hpp>
#include <troupe/algorithms/d4pg/replica.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/envs/flattened.hpp>
#include <troupe/replay/n_step_adder.hpp>
#include <troupe/replay/shards.hpp>
#include <troupe/replay/table_checks.hpp>

namespace troupe::actors {
namespace {

/// Frames under way for each pair of instances. Enough that nobody waits for a message, few enough that data is fresh.
constexpr std::int64_t kTrajectoriesAhead = 4;
constexpr std::int64_t kBatchesAhead = 4;  // Acme's prefetch
constexpr std::int64_t kReportsAhead = 16;
/// Of the importance weights of prioritised replay (Schaul et al. 2016, section 3.4).
constexpr double kImportanceExponent = 0.4;

Result<replay::TableOptions> table_options(const TrainOptions& options, const Signature& item) {
  const ReplayOptions& replay = options.replay;
  replay::TableOptions table;
  table.name = kReplayRole;
  table.signature = item;
  table.max_items = replay.max_items;
  table.max_bytes = replay.max_bytes;
  const auto sampler = replay::selector_kind(replay.sampler);
  if (!sampler) return Error{Code::kInvalidArgument, "replay.sampler: unknown \"" + replay.sampler + "\""};
  table.sampler = {*sampler, replay.priority_exponent};
  const double buffer = static_cast<double>(replay.min_items) * replay.tolerance * replay.samples_per_insert;
  TROUPE_ASSIGN(table.limiter, replay::sample_to_insert_ratio(replay.samples_per_insert, replay.min_items, buffer));
  for (std::int64_t shard = 0; shard < replay.shards; ++shard) {
    const auto room = replay::detail::check_options(replay::shard_options(table, shard, replay.shards));
    if (!room.ok()) return Error{room.error().code, "replay.max_bytes: " + room.error().message};
  }
  return table;
}

/// Devices of the key `where`.
Result<std::vector<learner::Device>> devices(const std::vector<std::string>& names, std::string_view where) {
  auto parsed = learner::parse_devices(names);
  if (parsed.ok()) return parsed;
  return Error{parsed.error().code, fmt::format("{}: {}", where, parsed.error().message)};
}

RoleSpec inference_server(const TrainOptions& options, MakePolicy make_policy, std::vector<learner::Device> devices,
                          const StalenessContract& staleness) {
  const InferenceOptions& inference = options.inference;
  // A batch of all the env actors there are, each of which has one call under way, need not wait for more.
  const std::int64_t callers = (options.actors.count + inference.count - 1) / inference.count;
  const std::int64_t rows = options.actors.envs_per_actor;
  RoleSpec server = InferenceActor::spec(kInferenceRole, inference.count,
                                         {.producers = options.actors.count,
                                          .rows = rows,
                                          .batch_size = std::min(inference.batch_size, callers * rows),
                                          .max_wait = from_seconds(inference.max_wait_ms / 1000),
                                          .make_policy = std::move(make_policy),
                                          .staleness = staleness,
                                          .devices = std::move(devices)});
  server.restart = restart_policy(options);
  return server;
}

}  // namespace

RestartPolicy restart_policy(const TrainOptions& options) {
  return {.max_restarts = static_cast<int>(options.supervisor.max_restarts),
          .quarantine = true,
          .first_backoff = from_seconds(options.supervisor.backoff_first_s),
          .max_backoff = from_seconds(options.supervisor.backoff_max_s)};
}

learner::d4pg::Options d4pg_options(const TrainOptions& options, const envs::EnvSpec& env) {
  const LearnerOptions& learner = options.learner;
  learner::d4pg::Options d4pg;
  d4pg.environment = {env.observation_size(), env.action.low, env.action.high};
  d4pg.policy_sizes = learner.policy_layers;
  d4pg.critic_sizes = learner.critic_layers;
  d4pg.support = {learner.v_min, learner.v_max, learner.atoms};
  d4pg.batch = learner.batch_size;
  d4pg.policy_learning_rate = learner.policy_learning_rate;
  d4pg.critic_learning_rate = learner.critic_learning_rate;
  d4pg.target_period = learner.target_update_period;
  d4pg.dqda_max_norm = learner.action_gradient_clip;
  d4pg.max_gradient_norm = learner.gradient_norm_clip;
  d4pg.importance_weights = options.replay.sampler == "prioritized";
  return d4pg;
}

D4pgActing d4pg_acting(const TrainOptions& options, const envs::EnvSpec& env) {
  const learner::d4pg::Options d4pg = d4pg_options(options, env);
  D4pgActing acting;
  acting.make_environment = envs::flattened(options.make_environment);
  acting.columns = learner::d4pg::policy_columns(d4pg);
  acting.make_policy = [d4pg](std::int64_t rows, learner::Device device) {
    return learner::d4pg::make_policy(d4pg, {.rows = rows, .compile = {.device = device}});
  };
  acting.explores = acting::gaussian_noise({.low = env.action.low,
                                            .high = env.action.high,
                                            .sigma = options.actors.sigma,
                                            .correlation = options.actors.noise_correlation});
  acting.greedy = acting::no_exploration(acting.columns.outputs.front());
  acting.adder = replay::n_step_adders(options.n_step, options.discount);
  acting.item = replay::transition_signature(acting.columns.inputs, acting.columns.outputs);
  return acting;
}

EpisodeRunnerOptions evaluation_episodes(const TrainOptions& options, const D4pgActing& acting) {
  return {acting.make_environment, acting.make_policy, acting.greedy, options.evaluator.episodes};
}

Result<learner::ReplicatorOptions> learner_replicator(const TrainOptions& options) {
  const LearnerOptions& learner = options.learner;
  const auto several = learner::replicator_kind(learner.replicator);
  if (!several) return Error{Code::kInvalidArgument, "learner.replicator: unknown \"" + learner.replicator + "\""};
  learner::ReplicatorOptions how;
  how.kind = learner.count > 1 ? *several : learner::ReplicatorKind::kOneDevice;
  how.global_batch = learner.batch_size;
  how.replicas = static_cast<int>(learner.count);
  how.deterministic = learner.deterministic;
  TROUPE_ASSIGN(how.devices, devices(learner.device, "learner.device"));
  how.nccl_interface = options.security.nccl_interface;
  how.compile.shards = 0;
  how.compile.threads = static_cast<int>(learner.threads);
  how.compile.tf32 = learner.compute == "tf32";
  how.compile.compute = learner.compute == "bf16" ? DType::kBF16 : DType::kF32;
  how.compile.plans =
      options.deterministic || learner.deterministic ? learner::PlanChoice::kByRule : learner::PlanChoice::kMeasured;
  how.compile.seed = derive_seed(options.seed, kLearnerRole, 0);  // of all learners: they start equal
  return how;
}

RoleSpec metrics_role(const TrainOptions& options, MetricSink& sink, double wall_s) {
  MetricsActorOptions metrics{.sink = &sink, .period = from_seconds(options.metrics.every_s), .wall_s = wall_s};
  if (has_d4pg(options)) {
    metrics.actor_role = kActorRole;
    metrics.actors = options.actors.count;
    metrics.max_env_steps = options.max_env_steps;
    metrics.learner_role = kLearnerRole;
    metrics.evaluators[kEvaluatorRole] = kLearnerRole;
    metrics.kept_roles = {kLearnerRole, kReplayRole};
    metrics.group_roles = {kLearnerRole};
  }
  for (const ReplicaRun& run : options.replicas) {
    metrics.kept_roles.insert(run.group.name);
    metrics.group_roles.insert(run.group.name);
    metrics.replica_roles.push_back(run.group.name);
    metrics.evaluators[evaluator_name(run.group)] = run.group.name;
  }
  for (const ConfiguredRole& role : options.roles) {
    if (role.spec.restart.from == RestartFrom::kLastCut) metrics.kept_roles.insert(role.spec.name);
  }
  RoleSpec spec = MetricsActor::spec(kMetricsRole, metrics);
  spec.kept_over_nodes = true;
  return spec;
}

Result<Topology> d4pg_topology(const TrainOptions& options, const envs::EnvSpec& env, MetricSink& sink, double wall_s) {
  const learner::d4pg::Options d4pg = d4pg_options(options, env);
  TROUPE_TRY(learner::d4pg::validate(d4pg));
  TROUPE_TRY(envs::flattened(env));
  const D4pgActing acting = d4pg_acting(options, env);

  const bool server = options.actors.inference == "server";
  const StalenessContract staleness{options.staleness.max_versions, {kLearnerRole, kParametersRole}};

  RoleSpec actor = EnvActor::spec(
      kActorRole, options.actors.count,
      {.make_environment = acting.make_environment,
       .acting = server ? remote_acting(acting.columns) : local_acting(acting.columns, acting.make_policy, staleness),
       .exploration = acting.explores,
       .adder = acting.adder,
       .environments = options.actors.envs_per_actor,
       .threads = static_cast<int>(options.actors.threads)});
  actor.restart = restart_policy(options);
  actor.completes_run = true;
  actor.goes_behind = true;
  actor.elastic = true;

  TROUPE_ASSIGN(auto table, table_options(options, acting.item));
  const bool on_gpu = replay_on_gpu(options);
  const ReplayActorOptions replay{
      .table = std::move(table),
      .batch = options.learner.batch_size / learner_instances(options),
      .journal = {.durability = options.replay.durability, .background = !options.deterministic}};

  TROUPE_ASSIGN(auto inference_devices, devices(options.inference.device, "inference.device"));
  TROUPE_ASSIGN(learner::ReplicatorOptions how, learner_replicator(options));
  how.member_batch = replay.batch;  // however many there are: replay sends batches of that size
  learner::d4pg::Options d4pg_of_one = d4pg;
  d4pg_of_one.batch = replay.batch;
  const MakeFedReplica make_replica = [d4pg_of_one](learner::InputFn input) {
    return Result<std::unique_ptr<learner::Replica>>(
        std::make_unique<learner::d4pg::D4pgReplica>(d4pg_of_one, std::move(input)));
  };
  const Signature item = learner::d4pg::batch_signature(d4pg_of_one);
  RoleSpec learner = Trainer::spec(
      kLearnerRole,
      {.feed = on_gpu ? gpu_replay_feed({.make_replica = make_replica,
                                         .signature = item,
                                         .replay = replay,
                                         .importance_exponent = d4pg.importance_weights ? kImportanceExponent : 0})
                      : replay_feed({.make_replica = make_replica,
                                     .signature = item,
                                     .shards = static_cast<std::size_t>(options.replay.shards),
                                     .prioritised = d4pg.importance_weights,
                                     .importance_exponent = kImportanceExponent}),
       .publication =
           policy_publication({.group = learner::d4pg::kPolicyGroup, .period = options.learner.publish_period}),
       .how = how,
       .count = learner_instances(options),
       .max_steps = options.max_learner_steps});
  learner.completes_run = true;
  learner.kept_over_nodes = true;
  // One alone is not replaced within a process: what it has learnt is gone. Of several, the others have it.
  if (learner_instances(options) > 1) {
    learner.restart = restart_policy(options);
    learner.restart.ends_run = kBadGradient;
  }

  RoleSpec evaluator = Evaluator::spec(kEvaluatorRole, {.runner = evaluation_episodes(options, acting),
                                                        .every_learner_steps = options.evaluator.every_learner_steps});
  evaluator.restart = actor.restart;

  // A GPU takes several steps in one launch, and its next launch is gathered meanwhile.
  const bool launches = std::ranges::any_of(how.devices, [](learner::Device d) { return d != learner::Device{}; });
  const std::int64_t batches_ahead = launches ? learner::kStepsPerLaunch : kBatchesAhead;
  // With several shards of replay there are as many pairs for the same data.
  const auto ahead = [&](std::int64_t frames, std::int64_t least) {
    return std::max(frames / options.replay.shards, least);
  };
  Topology topology;
  topology.roles = {std::move(actor), std::move(learner), ParameterStore::spec(kParametersRole), std::move(evaluator),
                    metrics_role(options, sink, wall_s)};
  topology.channels = {
      {kActorRole, "trajectories", on_gpu ? kLearnerRole : kReplayRole, "trajectories", ahead(kTrajectoriesAhead, 1)},
      {kLearnerRole, "updates", kParametersRole, "updates", 1},
      {kParametersRole, "refused", kLearnerRole, "refused", 1},
      {kParametersRole, "parameters", kEvaluatorRole, "parameters", 1},
      {kActorRole, "use", kParametersRole, "use", kReportsAhead},
      {kActorRole, "episodes", kMetricsRole, "episodes", kReportsAhead},
      {kActorRole, "steps", kMetricsRole, "steps", 1},
      evaluations_channel(kEvaluatorRole, kMetricsRole),
  };
  if (!on_gpu) {
    topology.roles.push_back(ReplayActor::spec(kReplayRole, options.replay.shards, replay));
    topology.roles.back().kept_over_nodes = true;
    topology.channels.push_back({kReplayRole, "batches", kLearnerRole, "batches", ahead(batches_ahead, 2)});
    topology.channels.push_back({kLearnerRole, "priorities", kReplayRole, "priorities", kBatchesAhead});
  }
  const char* const acts = server ? kInferenceRole : kActorRole;
  topology.channels.push_back({kParametersRole, "versions", acts, "versions", 1});
  topology.channels.push_back({kParametersRole, "parameters", acts, "parameters", 1});
  if (server) {
    topology.roles.push_back(inference_server(options, acting.make_policy, std::move(inference_devices), staleness));
    topology.channels.push_back({kActorRole, "inference", kInferenceRole, "requests", 1});
  }
  topology.reports = PortName{kMetricsRole, "reports"};
  return topology;
}

}  // namespace troupe::actors
