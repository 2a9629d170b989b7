#pragma once
// Which replicator runs a replica: one line of the user's, or of a configuration. Only the parameter server stands
// apart, because its workers and shards are tasks of their own (learner/replicate/parameter_server/).
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <troupe/collectives/communicator.hpp>
#include <troupe/collectives/in_process.hpp>
#include <troupe/core/error.hpp>
#include <troupe/learner/replicate/replicator.hpp>

namespace troupe::learner {

enum class ReplicatorKind : std::uint8_t { kOneDevice, kMultiDevice, kCentralStorage, kMultiWorker };

/// "one_device", "multi_device", "central_storage", "multi_worker"; empty for any other name.
std::optional<ReplicatorKind> replicator_kind(std::string_view name);
std::string_view to_string(ReplicatorKind kind);

struct ReplicatorOptions {
  ReplicatorKind kind = ReplicatorKind::kOneDevice;
  std::int64_t global_batch = 0;  ///< rows of one step over all replicas
  /// Of kMultiWorker: rows of each member, however many there are, in place of a share of the global batch; 0: a share.
  std::int64_t member_batch = 0;
  int replicas = 2;  ///< of kMultiDevice and kCentralStorage
  collectives::InProcessAlgorithm reduce = collectives::InProcessAlgorithm::kCollective;  ///< of these
  /// Bitwise the same parameters for 1, 2, 4 and 8 replicas of one global batch; see in_stripes().
  bool deterministic = false;
  CompileOptions compile;            ///< of each replica; with `deterministic`, stripes is made
  std::vector<Device> devices = {};  ///< of kMultiDevice and kCentralStorage, see device_of(); empty: compile.device
  std::int64_t first_step = 0;
  DType wire = DType::kF32;                           ///< of gradients between the members of kMultiWorker
  collectives::Communicator* communicator = nullptr;  ///< of kMultiWorker; outlives the replicator
  std::string nccl_interface = {};                    ///< of kMultiDevice and kMultiWorker, as NcclOptions::interface
  bool members_take_turns = false;                    ///< of kMultiWorker, as MultiWorkerOptions::members_take_turns
  std::string name = "replicas";                      ///< in the log
};

/// Stripes over all replicas in deterministic mode: what bits depend on, in place of the number of replicas.
inline constexpr int kStripes = 8;

/// `compile` with the stripes of one of `replicas` replicas. Errors: kInvalidArgument unless replicas is 1, 2, 4 or 8
/// and the global batch a multiple of kStripes.
Result<CompileOptions> in_stripes(CompileOptions compile, int replicas, std::int64_t global_batch);

/// `replica` outlives what is returned. A kMultiWorker still has to reform(). Errors: those of the replicator.
Result<std::unique_ptr<Replicator>> make_replicator(Replica& replica, const ReplicatorOptions& options);

}  // namespace troupe::learner
