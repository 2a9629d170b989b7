#pragma once
// A group of replicas that train one thing together, as plain values: which replicator runs them, and over how much.
// The sections [learner] of an agent and [replicas.NAME] of a configuration have the same names (run/group_schema.cpp);
// a program may fill them in for add_replica_group(). No invariants: check() says what does not fit together.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/core/error.hpp>

namespace troupe::actors {

struct ReplicaGroupOptions {
  std::string name = "replica";  ///< of its role; "NAME-evaluator" and so on follow from it
  /// "one_device", "multi_device", "central_storage", "model_parallel": one instance of the role runs all replicas.
  /// "multi_worker", "parameter_server", "sync_replicas", "split_gan": an instance a replica.
  std::string replicator = "one_device";
  std::int64_t count = 1;             ///< replicas; of "split_gan" the generator's
  std::int64_t devices = 1;           ///< of each replica, for "model_parallel"
  std::string reduce = "collective";  ///< "multi_device": or "hierarchical_copy", "reduction_to_one"
  std::int64_t batch_size = 128;      ///< rows of a step over all replicas
  std::int64_t accumulate = 1;        ///< batches whose gradients make one step
  std::int64_t steps = 2000;          ///< the group is done after so many
  bool deterministic = false;         ///< the same bits for 1, 2, 4 and 8 replicas
  /// Two runs give the same bits: products are computed by a rule, not by what was measured. The instances take turns,
  /// so those on GPUs meet in their hosts' memory: within NCCL each would wait for a GPU whose turn never comes.
  bool repeatable = false;
  std::string wire = "fp32";  ///< "bf16": half the bytes between processes, sums in float32
  /// "bf16": products and images; weights, statistics and losses stay float32. "tf32": on a GPU, products may round
  /// their operands so.
  std::string compute = "fp32";
  /// "cpu", "cuda:N", "tpu:N", "pjrt:NAME#N" or "auto"; of several, replica or instance i has the i-th modulo their
  /// count.
  std::vector<std::string> device = {"cpu"};
  std::int64_t threads = 1;         ///< that share a step of a replica, on each of its devices
  std::string nccl_interface = {};  ///< TrainOptions::security's
  std::uint64_t seed = 1;           ///< of parameters and data
  // "parameter_server" and "sync_replicas".
  std::int64_t ps_shards = 1;          ///< instances that hold the parameters
  std::string ps_partition = "fixed";  ///< of variables over them: or "min_size", "max_size"
  std::string staleness = "none";   ///< of gradients: "drop" those older than max_staleness, "scale" by 1 / staleness
  std::int64_t max_staleness = 8;   ///< versions; of "split_gan" the generator's, beyond which its images are dropped
  std::int64_t backup_workers = 0;  ///< "sync_replicas": a step ends without the latest so many of `count` gradients
  std::int64_t discriminators = 1;  ///< "split_gan": replicas of the discriminator, beside `count` of the generator
  std::int64_t evaluate_every_steps = 500;  ///< when there is something to evaluate
};

/// section: "replicas.NAME", the section of a configuration that the options come from. Errors: kInvalidArgument, one
/// line a mistake, each beginning with its key: "replicas.NAME.count: got 0".
Status check(const ReplicaGroupOptions& options, std::string_view section);

/// How many instances of the group's own role there are.
std::int64_t instances(const ReplicaGroupOptions& options);
bool has_parameter_server(const ReplicaGroupOptions& options);
/// Whether the group's own role is the generator of a GAN and the discriminator has another
/// (actors/roles/split_gan.hpp).
bool is_split_gan(const ReplicaGroupOptions& options);

}  // namespace troupe::actors
