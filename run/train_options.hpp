#pragma once
// The settings of a training run as plain values, checked before they get here (apps/train_schema.cpp makes them from
// a config file; every field has the name of its key there). Defaults are Acme's for D4PG on the control suite
// (acme/agents/jax/d4pg/config.py and examples/baselines/rl_continuous/run_d4pg.py). Values only: no invariants.
#include <cstdint>
#include <string>
#include <vector>

#include <troupe/actors/roles/replica_options.hpp>
#include <troupe/actors/runtime/topology.hpp>
#include <troupe/envs/environment.hpp>
#include <troupe/messages/message_type.hpp>

namespace troupe::actors {

struct ActorOptions {
  std::int64_t count = 1;           ///< env actors
  std::int64_t envs_per_actor = 1;  ///< each with its own random stream; the policy is called once for all of them
  std::int64_t threads = 1;         ///< of an env actor, that step its environments
  double sigma = 0.3;  ///< standard deviation of the Gaussian exploration noise, in units of half the action range
  double noise_correlation = 0;     ///< of the noise of two successive steps, in [0, 1)
  std::string inference = "local";  ///< "local": each env actor has the policy; "server": the inference role does
};

struct InferenceOptions {
  std::int64_t count = 1;        ///< servers
  std::int64_t batch_size = 32;  ///< observations in a batch at most; fewer when there are not as many env actors
  double max_wait_ms = 1;        ///< longest wait of a batch's first observation for the others
  std::vector<std::string> device = {"cpu"};  ///< "cpu", "cuda:N" or "auto"; server i has the i-th modulo their count
};

struct StalenessOptions {
  std::int64_t max_versions =
      -1;  ///< how much older than the newest published parameters acting ones may be; -1: no bound
};

struct ReplayOptions {
  std::int64_t shards = 1;             ///< instances, which together behave as one table with the limits below
  std::int64_t max_items = 1'000'000;  ///< the oldest item leaves when one more comes
  std::int64_t max_bytes = 4'000'000'000;
  std::int64_t min_items = 1'000;   ///< no sample before the table holds as many
  double samples_per_insert = 32;   ///< items sampled for each item inserted, in the long run
  double tolerance = 0.1;           ///< error buffer of the limiter = min_items * tolerance * samples_per_insert
  std::string sampler = "uniform";  ///< "uniform" or "prioritized"
  double priority_exponent = 0.6;   ///< of the prioritized sampler (Schaul et al. 2016)
  /// What inserts survive. "off": what the last checkpoint has; "relaxed": a kill, and but for the last second a power
  /// cut; "durable": both; "auto": relaxed over processes and nodes, off within one process.
  std::string durability = "auto";
  /// "cpu": a role of its own. "cuda:N": in the memory of the learner's GPU, which must be that one; then the learner's
  /// node takes the trajectories.
  std::string device = "cpu";
};

struct LearnerOptions {
  /// Learners, which train the same parameters: each takes an equal part of a batch, and they all-reduce gradients.
  std::int64_t count = 1;
  /// How several run: "multi_worker", an instance of the role each, which may be on any node; or "multi_device",
  /// "central_storage", all in one instance.
  std::string replicator = "multi_worker";
  bool deterministic = false;     ///< the same bits for 1, 2, 4 and 8 learners of one instance
  std::int64_t batch_size = 256;  ///< of a step, over all learners
  std::vector<std::int64_t> policy_layers = {256, 256, 256};
  std::vector<std::int64_t> critic_layers = {512, 512, 256};
  std::int64_t atoms = 51;  ///< of the value distribution, evenly from v_min to v_max
  double v_min = -150;
  double v_max = 150;
  double policy_learning_rate = 1e-4;  ///< Adam
  double critic_learning_rate = 1e-4;
  std::int64_t publish_period = 1;          ///< learner steps between two publications of the policy to the actors
  std::int64_t target_update_period = 100;  ///< learner steps between hard copies to the target networks
  double action_gradient_clip = 1;          ///< largest norm of dQ/da of a row in the policy's loss; 0: no clipping
  double gradient_norm_clip = 40;           ///< largest global norm of each network's gradient; 0: no clipping
  /// "fp32", "tf32" (as on a GPU, products may round their operands) or "bf16" (bfloat16 products, fp32 weights,
  /// targets and losses).
  std::string compute = "fp32";
  std::vector<std::string> device = {"cpu"};  ///< "cpu", "cuda:N" or "auto"; learner i has the i-th modulo their count
  std::int64_t threads = 1;                   ///< CPU shards of a learner step
};

struct EvaluatorOptions {
  std::int64_t episodes = 10;  ///< an evaluation, without exploration noise
  std::int64_t every_learner_steps = 2'500;
};

struct CheckpointOptions {
  double every_s = 15;
  std::int64_t keep = 2;  ///< newest ones; at least 2, so that a damaged one has a predecessor
};

struct MetricsOptions {
  double every_s = 1;  ///< between two rows
};

struct SupervisorOptions {
  std::int64_t max_restarts = 10;  ///< of one env actor; one more failure ends the run with its error
  double backoff_first_s = 0.1;    ///< wait before the first restart, doubled for every further one
  double backoff_max_s = 10;
};

struct SecurityOptions {
  /// Network interface for NCCL, whose sockets authenticate nobody: whoever reaches its network is trusted. Empty: NCCL
  /// stays on loopback, and gradients between hosts go over Troupe's own links (docs/security.md).
  std::string nccl_interface = {};
};

/// Nodes that each role is spread over when a run is more than one process; apps/cluster makes nodes of it. The one
/// part of a configuration that changes nothing about what is computed. 0: with the chief.
struct PlacementOptions {
  std::int64_t actors = 1;
  std::int64_t replay = 1;
  std::int64_t learner = 1;
  std::int64_t parameters = 1;
  std::int64_t evaluator = 1;
  std::int64_t inference = 1;  ///< when actors.inference is "server"
};

/// A group of replicas that trains one of the shipped models.
struct ReplicaRun {
  ReplicaGroupOptions group;
  ReplicaModelOptions model;
  std::int64_t nodes = 1;     ///< as in PlacementOptions, of the group's own role; its evaluator is with the chief
  std::int64_t ps_nodes = 1;  ///< and of its parameter servers
  std::int64_t discriminator_nodes = 1;  ///< and of its discriminators
};

/// A role of a configuration's own topology.
struct ConfiguredRole {
  RoleSpec spec;
  std::int64_t nodes = 1;  ///< as in PlacementOptions
};

struct TrainOptions {
  std::string name;  ///< of the run, for its directory
  std::string env;   ///< what its environment is called; empty: no D4PG, only replica groups or roles
  envs::MakeEnvironment make_environment = nullptr;  ///< instances of it
  std::uint64_t seed = 1;
  bool deterministic = false;  ///< one thread and virtual time: two runs give the same bits
  /// Whichever limit is met first ends the run; 0 is no limit.
  double max_minutes = 0;
  std::int64_t max_env_steps = 1'000'000;
  std::int64_t max_learner_steps = 0;
  std::int64_t n_step = 5;  ///< of the returns that the adder makes
  double discount = 0.99;   ///< gamma, a step

  ActorOptions actors;
  InferenceOptions inference;  ///< used when actors.inference is "server"
  StalenessOptions staleness;
  ReplayOptions replay;
  LearnerOptions learner;
  EvaluatorOptions evaluator;
  CheckpointOptions checkpoint;
  MetricsOptions metrics;
  SupervisorOptions supervisor;
  SecurityOptions security;
  PlacementOptions placement;
  std::vector<ReplicaRun> replicas;
  std::vector<ConfiguredRole> roles;
  std::vector<ChannelSpec> channels;                 ///< of those roles, among themselves and with all others
  std::vector<messages::MessageType> messages = {};  ///< that their ports may name besides those that ship
};

/// Instances of the learner's role.
inline std::int64_t learner_instances(const TrainOptions& options) {
  return options.learner.replicator == "multi_worker" ? options.learner.count : 1;
}

/// Whether the learner holds replay, and there is no replay role.
inline bool replay_on_gpu(const TrainOptions& options) { return options.replay.device != "cpu"; }

/// D4PG is part of a run unless it is one of replica groups or of a topology of the user's own alone.
inline bool has_d4pg(const TrainOptions& options) {
  return !options.env.empty() || (options.replicas.empty() && options.roles.empty());
}

}  // namespace troupe::actors
