#pragma once
// One agent of a run as plain values: its environment, its algorithm, and the roles that feed it. Checked before they
// get here (run/agent_schema.cpp makes them from a configuration; every field has the name of its key there). Defaults
// are Acme's for D4PG on the control suite (acme/agents/jax/d4pg/config.py and
// examples/baselines/rl_continuous/run_d4pg.py). Values only: no invariants.
#include <cstdint>
#include <string>
#include <vector>

#include <troupe/actors/roles/own_learner.hpp>
#include <troupe/actors/roles/replica_options.hpp>
#include <troupe/algorithms/agent/algorithm.hpp>
#include <troupe/envs/environment.hpp>
#include <troupe/envs/wrapper.hpp>

namespace troupe::actors {

struct ActorOptions {
  std::int64_t count = 1;           ///< env actors
  std::int64_t envs_per_actor = 1;  ///< each with its own random stream; the policy is called once for all of them
  std::int64_t threads = 1;         ///< of an env actor, that step its environments
  std::string inference = "local";  ///< "local": each env actor has the policy; "server": the inference role does
};

struct InferenceOptions {
  std::int64_t count = 1;        ///< servers
  std::int64_t batch_size = 32;  ///< observations in a batch at most; fewer when there are not as many env actors
  double max_wait_ms = 1;        ///< longest wait of a batch's first observation for the others
  std::vector<std::string> device = {"cpu"};  ///< learner::parse_device()'s; server i has the i-th modulo their count
};

struct StalenessOptions {
  std::int64_t max_versions =
      -1;  ///< how much older than the newest published parameters acting ones may be; -1: no bound
};

struct ReplayOptions {
  std::int64_t shards = 1;             ///< instances, which together behave as one table with the limits below
  std::int64_t max_items = 1'000'000;  ///< an item leaves when one more comes
  std::int64_t max_bytes = 4'000'000'000;
  std::int64_t min_items = 1'000;  ///< no sample before the table holds as many
  double samples_per_insert = 32;  ///< items sampled for each item inserted, in the long run
  double tolerance = 0.1;          ///< error buffer of the limiter = min_items * tolerance * samples_per_insert
  /// "ratio": by the three above. "queue": each item is drawn once, and inserts wait while max_items are there; the
  /// sampler says in which order, so "lifo" makes a stack.
  std::string limiter = "ratio";
  std::string sampler = "uniform";     ///< which items are drawn: a SelectorKind
  std::string remover = "fifo";        ///< which item leaves
  std::int64_t max_times_sampled = 0;  ///< after so many draws an item leaves; 0: never
  double priority_exponent = 0.6;      ///< of "prioritized" (Schaul et al. 2016)
  /// What inserts survive. "off": only those in the last checkpoint survive anything; "relaxed": all survive a kill,
  /// and all but the last second's a power cut; "durable": all survive both; "auto": relaxed over processes and nodes,
  /// off within one process.
  std::string durability = "auto";
  /// {"cpu"}: a role of its own. The learner's devices, all of them GPUs: in their memory; then the learners take the
  /// trajectories, and of several each holds and draws from a shard.
  std::vector<std::string> device = {"cpu"};
  bool external = false;  ///< programs outside of the run may insert, draw and set priorities: ReplayClient
};

struct EvaluatorOptions {
  std::int64_t episodes = 10;  ///< an evaluation, without exploration noise
  std::int64_t every_learner_steps = 2'500;
  std::string env = {};                              ///< what an environment of its own is called; empty: the agent's
  envs::MakeEnvironment make_environment = nullptr;  ///< of that; null: the agent's
  std::vector<envs::NamedWrap> wrappers = {};        ///< around it: none that are for training only
};

/// Over how many nodes each role is spread when a run is more than one process; apps/cluster makes nodes of it. This is
/// the one part of a configuration that changes nothing about what is computed. 0: with the chief.
struct PlacementOptions {
  std::int64_t actors = 1;
  std::int64_t replay = 1;
  std::int64_t learner = 1;
  std::int64_t learner_ps = 1;  ///< when the learners have a parameter server
  std::int64_t parameters = 1;
  std::int64_t evaluator = 1;
  std::int64_t inference = 1;  ///< when actors.inference is "server"
};

struct AgentOptions {
  std::string name = {};  ///< of its section [agents.NAME]; empty: the run's only one, at the top of the configuration
  std::string env;        ///< what its environment is called
  envs::MakeEnvironment make_environment = nullptr;
  std::vector<envs::NamedWrap> wrappers = {};  ///< around it, from it outwards
  std::string algorithm = {};                  ///< what it is called
  MakeAlgorithm make_algorithm = nullptr;
  /// Whichever limit is met first ends the agent; 0 is no limit.
  std::int64_t max_env_steps = 1'000'000;
  std::int64_t max_learner_steps = 0;

  ActorOptions actors;
  InferenceOptions inference;  ///< used when actors.inference is "server"
  StalenessOptions staleness;
  ReplayOptions replay;
  /// How the learners run; name, seed and steps are not looked at, since they follow from the agent and the run.
  ReplicaGroupOptions learner = {.replicator = "multi_worker", .batch_size = 256};
  std::int64_t publish_period = 1;      ///< learner steps between two publications of the policy to the actors
  std::string learner_kind = {};        ///< what it is called, when the user's own is there
  RoleFactory make_external = nullptr;  ///< in the process of such a program; null elsewhere
  MakeLearner make_learner = nullptr;   ///< null: a program of the algorithm's
  EvaluatorOptions evaluator;
  PlacementOptions placement;
};

/// learner.kind of what Troupe computes itself.
inline constexpr const char* kProgramLearner = "program";
/// Names of an agent's roles; of an agent with a name they begin with it: "alice-learner".
inline constexpr const char* kActorRole = "actor";
inline constexpr const char* kInferenceRole = "inference";  ///< there when actors.inference is "server"
inline constexpr const char* kReplayRole = "replay";        ///< there unless the learner holds replay
inline constexpr const char* kLearnerRole = "learner";
inline constexpr const char* kParametersRole = "parameters";
inline constexpr const char* kEvaluatorRole = "evaluator";
inline constexpr const char* kExternalRole = "external";  ///< there when replay.external says so
std::string role_of(const AgentOptions& agent, const std::string& role);
/// What its keys begin with in a configuration: "agents.alice.", or nothing.
std::string section_prefix(const AgentOptions& agent);

/// Instances of the learner's role.
std::int64_t learner_instances(const AgentOptions& agent);
/// Whether the learner sets priorities, as something in replay goes by them, and gets importance weights.
bool is_prioritised(const AgentOptions& agent);
/// Whether the learners hold replay, and there is no replay role.
inline bool is_held(const ReplayOptions& replay) { return replay.device != ReplayOptions{}.device; }
/// How many tables share the items.
inline std::int64_t replay_shards(const AgentOptions& agent) {
  return is_held(agent.replay) ? learner_instances(agent) : agent.replay.shards;
}

}  // namespace troupe::actors
