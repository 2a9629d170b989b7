#pragma once
// The settings of a training run as plain values, checked before they get here (run/train_schema.cpp makes them from a
// configuration; every field has the name of its key there): its agents, its replica groups and its own roles, and what
// holds for all of them. Values only: no invariants.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/actors/roles/replica_model.hpp>
#include <troupe/actors/roles/replica_options.hpp>
#include <troupe/actors/runtime/topology.hpp>
#include <troupe/messages/message_type.hpp>
#include <troupe/run/agent_options.hpp>

namespace troupe::actors {

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

/// A group of replicas that trains a model on its own data.
struct ReplicaRun {
  ReplicaGroupOptions group;
  std::string model;  ///< what it is called
  MakeModel make_model = nullptr;
  bool threads = true;        ///< ModelContext::threads
  std::int64_t nodes = 1;     ///< as in PlacementOptions, of the group's own role; its evaluator is with the chief
  std::int64_t ps_nodes = 1;  ///< and of its parameter servers
  std::int64_t discriminator_nodes = 1;  ///< and of its discriminators
};

/// The model that it trains. Errors: those of make_model.
Result<ReplicaModel> model_of(const ReplicaRun& run, ModelContext::Data data = ModelContext::Data::kRead);

/// A role of a configuration's own topology.
struct ConfiguredRole {
  RoleSpec spec;
  std::int64_t nodes = 1;  ///< as in PlacementOptions
};

struct TrainOptions {
  std::string name;  ///< of the run, for its directory
  std::uint64_t seed = 1;
  bool deterministic = false;  ///< one thread and virtual time: two runs give the same bits
  double max_minutes = 0;      ///< after which the run ends; 0 is no limit

  CheckpointOptions checkpoint;
  MetricsOptions metrics;
  SupervisorOptions supervisor;
  SecurityOptions security;
  BeginWith begin_with = nullptr;  ///< called for every part of a new run; null: nothing is loaded
  std::string init = {};           ///< where that comes from
  std::vector<AgentOptions> agents;
  std::vector<ReplicaRun> replicas;
  std::vector<ConfiguredRole> roles;
  std::vector<ChannelSpec> channels;                 ///< of those roles, among themselves and with all others
  std::vector<messages::MessageType> messages = {};  ///< types that their ports may name besides those that ship
};

/// The agent or the group of this name, which is that of its learner's role: "learner", "classifier"; null: none.
const AgentOptions* find_agent(const TrainOptions& options, std::string_view learner);
const ReplicaRun* find_replicas(const TrainOptions& options, std::string_view name);

}  // namespace troupe::actors
