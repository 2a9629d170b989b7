#include <troupe/run/agent_topology.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include <troupe/actors/roles/bad_gradient.hpp>
#include <troupe/actors/roles/env_actor.hpp>
#include <troupe/actors/roles/evaluation.hpp>
#include <troupe/actors/roles/evaluator.hpp>
#include <troupe/actors/roles/gpu_replay_feed.hpp>
#include <troupe/actors/roles/inference_actor.hpp>
#include <troupe/actors/roles/kept_replay_feed.hpp>
#include <troupe/actors/roles/own_learner.hpp>
#include <troupe/actors/roles/parameter_store.hpp>
#include <troupe/actors/roles/policy_publication.hpp>
#include <troupe/actors/roles/replay_actor.hpp>
#include <troupe/actors/roles/replay_client.hpp>
#include <troupe/actors/roles/replay_feed.hpp>
#include <troupe/actors/roles/replica_topology.hpp>
#include <troupe/actors/roles/replicator_options.hpp>
#include <troupe/actors/roles/trainer.hpp>
#include <troupe/core/rng.hpp>
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

/// The error, with the section of the agent before the option that it begins with.
Error in_section(const AgentOptions& options, const Error& error) {
  return {error.code, section_prefix(options) + error.message};
}

/// The error of an option, which it then begins with.
Error about(std::string_view option, const Error& error) {
  return {error.code, fmt::format("{}: {}", option, error.message)};
}

/// What of replay's keys a queue of so many items cannot do, and those that it leaves without effect.
Status check_queue(const AgentOptions& options, bool by_algorithm, std::int64_t items) {
  const ReplayOptions& replay = options.replay;
  const ReplayOptions defaults;
  const std::string about =
      by_algorithm ? fmt::format("algorithm \"{}\" learns from each item once, in their order", options.algorithm)
                   : "replay.limiter \"queue\" draws each item once";
  const auto check = [&](bool as_it_is, const char* key) -> Status {
    if (as_it_is) return {};
    return Error{Code::kInvalidArgument, fmt::format("replay.{}: it is set, but {}", key, about)};
  };
  TROUPE_TRY(check(replay.shards == 1, "shards"));
  TROUPE_TRY(check(!is_held(replay), "device"));
  TROUPE_TRY(check(replay.remover == defaults.remover, "remover"));
  TROUPE_TRY(check(replay.max_times_sampled == defaults.max_times_sampled, "max_times_sampled"));
  TROUPE_TRY(check(replay.min_items == defaults.min_items, "min_items"));
  TROUPE_TRY(check(replay.samples_per_insert == defaults.samples_per_insert, "samples_per_insert"));
  TROUPE_TRY(check(replay.tolerance == defaults.tolerance, "tolerance"));
  if (by_algorithm) {
    TROUPE_TRY(check(replay.sampler == defaults.sampler, "sampler"));
    TROUPE_TRY(check(replay.max_items == defaults.max_items, "max_items"));
    TROUPE_TRY(check(replay.limiter == defaults.limiter, "limiter"));
  }
  if (items >= options.learner.batch_size) return {};
  const std::string whose = by_algorithm ? fmt::format("the queue of algorithm \"{}\"", options.algorithm) : "replay";
  return Error{Code::kInvalidArgument, fmt::format("learner.batch_size: got {}, but {} holds {} items",
                                                   options.learner.batch_size, whose, items)};
}

Result<replay::SelectorOptions> selector(std::string_view option, const std::string& name, double priority_exponent) {
  const auto kind = replay::selector_kind(name);
  if (!kind) return Error{Code::kInvalidArgument, fmt::format("{}: unknown \"{}\"", option, name)};
  return replay::SelectorOptions{*kind, priority_exponent};
}

Result<replay::TableOptions> table_options(const AgentOptions& options, const Signature& item, std::int64_t queue) {
  const ReplayOptions& replay = options.replay;
  replay::TableOptions table;
  table.name = kReplayRole;
  table.signature = item;
  table.max_items = replay.max_items;
  table.max_bytes = replay.max_bytes;
  const bool by_algorithm = queue > 0;
  if (by_algorithm) {
    table.max_items = queue;
    table.sampler = {.kind = replay::SelectorKind::kFifo};
  } else {
    TROUPE_ASSIGN(table.sampler, selector("replay.sampler", replay.sampler, replay.priority_exponent));
  }
  if (by_algorithm || replay.limiter == "queue") {
    // As many as there is room for: the remover would take items that nobody has drawn.
    const auto room = replay::detail::check_options(table);
    if (!room.ok()) return about("replay.max_bytes", room.error());
    TROUPE_TRY(check_queue(options, by_algorithm, *room));
    table.max_times_sampled = 1;
    table.limiter = replay::queue(*room);
    return table;
  }
  TROUPE_ASSIGN(table.remover, selector("replay.remover", replay.remover, replay.priority_exponent));
  const auto kind = table.sampler.kind;
  const std::int64_t shards = replay_shards(options);
  if (shards > 1 && kind != replay::SelectorKind::kUniform && kind != replay::SelectorKind::kPrioritized) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: got {}, but sampler {} looks at all items, which only one has",
                             is_held(replay) ? "learner.count" : "replay.shards", shards, replay.sampler)};
  }
  table.max_times_sampled = replay.max_times_sampled;
  const auto draws = static_cast<double>(replay.max_times_sampled);
  if (replay.max_times_sampled != 0 && draws < replay.samples_per_insert) {  // both sides would wait for ever
    return Error{Code::kInvalidArgument,
                 fmt::format("replay.max_times_sampled: got {}, expected 0 or at least samples_per_insert, {}",
                             replay.max_times_sampled, replay.samples_per_insert)};
  }
  const double buffer = static_cast<double>(replay.min_items) * replay.tolerance * replay.samples_per_insert;
  TROUPE_ASSIGN(table.limiter, replay::sample_to_insert_ratio(replay.samples_per_insert, replay.min_items, buffer));
  for (std::int64_t shard = 0; shard < shards; ++shard) {
    const auto room = replay::detail::check_options(replay::shard_options(table, shard, shards));
    if (!room.ok()) return about("replay.max_bytes", room.error());
  }
  return table;
}

/// Devices of the key `where`.
Result<std::vector<learner::Device>> devices(const std::vector<std::string>& names, std::string_view where) {
  auto parsed = learner::parse_devices(names);
  if (parsed.ok()) return parsed;
  return Error{parsed.error().code, fmt::format("{}: {}", where, parsed.error().message)};
}

/// What make()'s environments are like; an error is the option's.
Result<envs::EnvSpec> spec_of(const envs::MakeEnvironment& make, std::string_view option) {
  const auto made = make(1);
  if (!made.ok()) return about(option, made.error());
  return (*made)->spec();
}

/// What the agent's algorithm is told of the run.
Result<AlgorithmContext> context_of(const AgentOptions& options) {
  TROUPE_ASSIGN(envs::EnvSpec spec, spec_of(options.make_environment, "env"));
  if (!options.wrappers.empty()) {
    TROUPE_ASSIGN(spec, spec_of(envs::wrapped(options.make_environment, options.wrappers), "wrappers"));
  }
  return AlgorithmContext{.environment = std::move(spec), .importance_weights = is_prioritised(options)};
}

/// What a policy sees and does there.
std::string seen_and_done(const envs::EnvSpec& spec) {
  std::vector<std::string> columns;
  for (const TensorSpec& column : spec.observation) columns.push_back(column.to_string());
  const envs::ActionSpec& action = spec.action;
  const std::string values =
      action.discrete() ? fmt::format("one of {} choices", action.choices)
                        : fmt::format("from [{}] to [{}]", fmt::join(action.low, ", "), fmt::join(action.high, ", "));
  return fmt::format("{} (observes {}; {}, {})", spec.name, fmt::join(columns, ", "), action.tensor.to_string(),
                     values);
}

bool same_for_a_policy(const envs::EnvSpec& a, const envs::EnvSpec& b) {
  return a.observation == b.observation && a.action.tensor == b.action.tensor && a.action.choices == b.action.choices &&
         a.action.low == b.action.low && a.action.high == b.action.high;
}

/// Makes the agent's evaluation; what it is trained in is there.
Status add_evaluation(const AgentOptions& options, Agent& agent) {
  const EvaluatorOptions& evaluator = options.evaluator;
  const bool own = evaluator.make_environment != nullptr;
  agent.make_evaluation = agent.make_environment;
  agent.evaluation = agent.environment;
  using envs::NamedWrap;
  if (!own && std::ranges::equal(options.wrappers, evaluator.wrappers, {}, &NamedWrap::name, &NamedWrap::name)) {
    return {};
  }
  if (own) TROUPE_TRY(spec_of(evaluator.make_environment, "evaluator.env"));
  const auto wrapped = envs::wrapped(own ? evaluator.make_environment : options.make_environment, evaluator.wrappers);
  TROUPE_TRY(spec_of(wrapped, "evaluator.wrappers"));
  const char* const option = own ? "evaluator.env" : "evaluator.wrappers";
  agent.make_evaluation = agent.algorithm.wrap ? agent.algorithm.wrap(wrapped) : wrapped;
  TROUPE_ASSIGN(agent.evaluation, spec_of(agent.make_evaluation, option));
  if (same_for_a_policy(agent.evaluation, agent.environment)) return {};
  return Error{Code::kInvalidArgument,
               fmt::format("{}: evaluations are in {}, expected observations and actions as in {}, for which the "
                           "policy is made",
                           option, seen_and_done(agent.evaluation), seen_and_done(agent.environment))};
}

/// The roles of one agent and the channels between them.
class AgentTopology {
 public:
  AgentTopology(const TrainOptions& run, const AgentOptions& options, std::string metrics)
      : run_(run), options_(options), metrics_(std::move(metrics)), restart_(restart_policy(run.supervisor)) {}

  Status add_to(Topology& topology) {
    TROUPE_ASSIGN(agent_, make_agent(options_));
    TROUPE_ASSIGN(auto table, table_options(options_, agent_.item, agent_.algorithm.queue));
    replay_ = {.table = std::move(table),
               .batch = options_.learner.batch_size / learner_instances(options_),
               .journal = {.durability = options_.replay.durability, .background = !run_.deterministic},
               .clients = options_.replay.external};
    const std::size_t first = topology.roles.size();
    topology.roles.push_back(env_actor());
    TROUPE_TRY(add_learner(topology));
    topology.roles.push_back(ParameterStore::spec(name(kParametersRole)));
    topology.roles.push_back(evaluator());
    if (!is_held(options_.replay)) {
      topology.roles.push_back(ReplayActor::spec(name(kReplayRole), options_.replay.shards, replay_));
      topology.roles.back().kept_over_nodes = true;
    }
    if (options_.replay.external) {
      topology.roles.push_back(external_role(name(kExternalRole), options_.make_external));
    }
    if (has_server()) {
      TROUPE_ASSIGN(RoleSpec server, inference_server());
      topology.roles.push_back(std::move(server));
    }
    for (std::size_t i = first; i < topology.roles.size(); ++i) topology.roles[i].part = options_.name;
    add_channels(topology);
    return {};
  }

 private:
  std::string name(const char* role) const { return role_of(options_, role); }
  bool has_server() const { return options_.actors.inference == "server"; }
  StalenessContract staleness() const {
    return {options_.staleness.max_versions, {name(kLearnerRole), name(kParametersRole)}};
  }

  RoleSpec env_actor() const {
    const Algorithm& algorithm = agent_.algorithm;
    RoleSpec actor =
        EnvActor::spec(name(kActorRole), options_.actors.count,
                       {.make_environment = agent_.make_environment,
                        .acting = has_server() ? remote_acting(algorithm.columns)
                                               : local_acting(algorithm.columns, agent_.make_policy, staleness()),
                        .exploration = algorithm.explores,
                        .adder = algorithm.adder,
                        .environments = options_.actors.envs_per_actor,
                        .threads = static_cast<int>(options_.actors.threads)});
    actor.restart = restart_;
    actor.completes_run = true;
    actor.goes_behind = true;
    actor.elastic = true;
    return actor;
  }

  Result<RoleSpec> inference_server() const {
    const InferenceOptions& inference = options_.inference;
    TROUPE_ASSIGN(auto where, devices(inference.device, "inference.device"));
    // A batch of all the env actors there are, each of which has one call under way, need not wait for more.
    const std::int64_t callers = (options_.actors.count + inference.count - 1) / inference.count;
    const std::int64_t rows = options_.actors.envs_per_actor;
    RoleSpec server = InferenceActor::spec(name(kInferenceRole), inference.count,
                                           {.producers = options_.actors.count,
                                            .rows = rows,
                                            .batch_size = std::min(inference.batch_size, callers * rows),
                                            .max_wait = from_seconds(inference.max_wait_ms / 1000),
                                            .make_policy = agent_.make_policy,
                                            .staleness = staleness(),
                                            .devices = std::move(where)});
    server.restart = restart_;
    return server;
  }

  FeedSpec feed() const {
    const Algorithm& algorithm = agent_.algorithm;
    const bool prioritised = is_prioritised(options_);
    if (is_held(options_.replay)) {
      HeldReplayFeedOptions held{.make_replica = algorithm.make_replica,
                                 .signature = agent_.batch,
                                 .replay = replay_,
                                 .importance_exponent = prioritised ? kImportanceExponent : 0,
                                 .priority_output = algorithm.priority};
      return learner::parse_device(options_.replay.device[0])->is_gpu() ? gpu_replay_feed(std::move(held))
                                                                        : kept_replay_feed(std::move(held));
    }
    return replay_feed({.make_replica = algorithm.make_replica,
                        .signature = agent_.batch,
                        .batches = replay_batches(),
                        .priority_output = algorithm.priority});
  }

  ReplayBatchesOptions replay_batches() const {
    return {.shards = static_cast<std::size_t>(options_.replay.shards),
            .prioritised = is_prioritised(options_),
            .importance_exponent = kImportanceExponent};
  }

  /// What the user has written instead of the algorithm's program.
  Result<RoleSpec> learner_of_own() const {
    TROUPE_ASSIGN(const auto policy, agent_.make_policy(1, learner::Device{}));
    return own_learner(name(kLearnerRole), {.make = options_.make_learner,
                                            .context = {.batch = agent_.batch,
                                                        .policy = policy->layout(),
                                                        .batch_size = options_.learner.batch_size,
                                                        .max_steps = options_.max_learner_steps,
                                                        .prioritised = is_prioritised(options_)},
                                            .batches = replay_batches(),
                                            .publish_period = options_.publish_period});
  }

  Status add_learner(Topology& topology) {
    if (options_.make_learner != nullptr) {
      TROUPE_ASSIGN(RoleSpec own, learner_of_own());
      topology.roles.push_back(std::move(own));
      topology.roles.back().completes_run = true;
      topology.roles.back().kept_over_nodes = true;
      return {};
    }
    TROUPE_ASSIGN(const ReplicaGroupOptions group, learner_group(run_, options_));
    const std::int64_t instances = learner_instances(options_);
    const PublicationSpec publication =
        policy_publication({.groups = agent_.algorithm.published, .period = options_.publish_period});
    if (has_parameter_server(group)) {
      ParameterServerOptions server = parameter_server_options(group);
      server.feed = feed();
      server.publication = publication;
      server.begin_with = begin_with();
      TROUPE_TRY(add_parameter_server(topology, server));
      // Who publishes must not be given up while others go on: nobody would act with what they learn.
      topology.roles.back().restart.quarantine = false;
    } else {
      TROUPE_ASSIGN(learner::ReplicatorOptions how, replicator_options(group));
      how.member_batch = replay_.batch;  // however many there are: replay sends batches of that size
      // A GPU takes several steps in one launch, and its next launch is gathered meanwhile.
      launches_ = std::ranges::any_of(how.devices, [](learner::Device d) { return d != learner::Device{}; });
      topology.roles.push_back(Trainer::spec(group.name, {.feed = feed(),
                                                          .publication = publication,
                                                          .how = how,
                                                          .count = instances,
                                                          .max_steps = group.steps,
                                                          .begin_with = begin_with()}));
      // One alone is not replaced within a process: what it has learnt is gone. Of several, the others have it.
      if (instances > 1) {
        topology.roles.back().restart = restart_;
        topology.roles.back().restart.ends_run = kBadGradient;
      }
    }
    topology.roles.back().completes_run = true;
    topology.roles.back().kept_over_nodes = true;
    return {};
  }

  std::function<Status(learner::Program&)> begin_with() const {
    if (!run_.begin_with) return nullptr;
    return [begin = run_.begin_with, part = name(kLearnerRole)](learner::Program& program) {
      return begin(part, program);
    };
  }

  RoleSpec evaluator() const {
    RoleSpec evaluator =
        Evaluator::spec(name(kEvaluatorRole), {.examine = examine_by_episodes(evaluation_episodes(options_, agent_)),
                                               .every = options_.evaluator.every_learner_steps,
                                               .trainer = name(kLearnerRole)});
    evaluator.restart = restart_;
    return evaluator;
  }

  void add_channels(Topology& topology) const {
    // With several shards of replay there are as many pairs for the same data.
    const auto ahead = [&](std::int64_t frames, std::int64_t least) {
      return std::max(frames / replay_shards(options_), least);
    };
    const std::string actor = name(kActorRole), learner = name(kLearnerRole), parameters = name(kParametersRole),
                      evaluator = name(kEvaluatorRole), replay = name(kReplayRole), inference = name(kInferenceRole);
    const bool held = is_held(options_.replay);  // by the learners
    std::vector<ChannelSpec> channels = {
        {actor, "trajectories", held ? learner : replay, "trajectories", ahead(kTrajectoriesAhead, 1)},
        {learner, "updates", parameters, "updates", 1},
        {parameters, "refused", learner, "refused", 1},
        {parameters, "parameters", evaluator, "parameters", 1},
        {actor, "use", parameters, "use", kReportsAhead},
        {actor, "episodes", metrics_, metrics_port(options_, "episodes"), kReportsAhead},
        {actor, "steps", metrics_, metrics_port(options_, "steps"), 1},
        evaluations_channel(evaluator, metrics_),
    };
    if (!held) {
      const std::int64_t batches = launches_ ? learner::kStepsPerLaunch : kBatchesAhead;
      channels.push_back({replay, "batches", learner, "batches", ahead(batches, 2)});
      channels.push_back({learner, "priorities", replay, "priorities", kBatchesAhead});
    }
    if (options_.replay.external) {
      const std::string external = name(kExternalRole);
      channels.push_back({external, "trajectories", replay, "trajectories", ahead(kTrajectoriesAhead, 1)});
      channels.push_back({external, "priorities", replay, "priorities", kBatchesAhead});
      channels.push_back({external, "samples", replay, "samples", kBatchesAhead});
    }
    const std::string& acts = has_server() ? inference : actor;
    channels.push_back({parameters, "versions", acts, "versions", 1});
    channels.push_back({parameters, "parameters", acts, "parameters", 1});
    if (has_server()) channels.push_back({actor, "inference", inference, "requests", 1});
    std::ranges::move(channels, std::back_inserter(topology.channels));
  }

  const TrainOptions& run_;
  const AgentOptions& options_;
  const std::string metrics_;
  const RestartPolicy restart_;
  Agent agent_;
  ReplayActorOptions replay_;
  bool launches_ = false;
};

}  // namespace

RestartPolicy restart_policy(const SupervisorOptions& supervisor) {
  return {.max_restarts = static_cast<int>(supervisor.max_restarts),
          .quarantine = true,
          .first_backoff = from_seconds(supervisor.backoff_first_s),
          .max_backoff = from_seconds(supervisor.backoff_max_s)};
}

std::string metrics_port(const AgentOptions& agent, std::string_view port) { return role_of(agent, std::string(port)); }

Result<Agent> make_agent(const AgentOptions& options) {
  TROUPE_ASSIGN(AlgorithmContext context, context_of(options));
  auto made = options.make_algorithm(context);
  if (!made.ok()) return about("algorithm", made.error());
  Agent agent{.algorithm = std::move(made).value(), .given = context.environment.observation};
  const Algorithm& algorithm = agent.algorithm;
  const auto wrapped = envs::wrapped(options.make_environment, options.wrappers);
  agent.make_environment = algorithm.wrap ? algorithm.wrap(wrapped) : wrapped;
  TROUPE_ASSIGN(agent.environment, spec_of(agent.make_environment, "algorithm"));
  TROUPE_TRY(add_evaluation(options, agent));
  auto item = item_signature(algorithm, agent.environment);
  if (!item.ok()) return about("algorithm", item.error());
  agent.item = std::move(item).value();
  agent.batch = batch_signature(agent.item, context);
  agent.make_policy = [network = algorithm.policy, columns = algorithm.columns](std::int64_t rows,
                                                                                learner::Device device) {
    return learner::Policy::make(network, columns, {.rows = rows, .compile = {.device = device}});
  };
  return agent;
}

EpisodeRunnerOptions evaluation_episodes(const AgentOptions& options, const Agent& agent) {
  return {agent.make_evaluation, agent.make_policy, agent.algorithm.greedy, options.evaluator.episodes};
}

Result<ReplicaGroupOptions> learner_group(const TrainOptions& run, const AgentOptions& options) {
  ReplicaGroupOptions learner = options.learner;
  learner.name = role_of(options, kLearnerRole);
  learner.seed = derive_seed(run.seed, learner.name, 0);  // of all learners: they start equal
  learner.steps = options.max_learner_steps;
  learner.repeatable = run.deterministic;
  learner.nccl_interface = run.security.nccl_interface;
  if (learner.count == 1 && learner.devices == 1 && !has_parameter_server(learner)) learner.replicator = "one_device";
  TROUPE_TRY(devices(learner.device, "learner.device"));
  return learner;
}

Status add_agent(Topology& topology, const TrainOptions& run, const AgentOptions& options, const std::string& metrics) {
  const Status added = AgentTopology(run, options, metrics).add_to(topology);
  return added.ok() ? added : in_section(options, added.error());
}

}  // namespace troupe::actors
