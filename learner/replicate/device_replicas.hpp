#pragma once
// Replicators of one process with a replica per device: a GPU, or a thread of the processor, or several of them.
//
//   MultiDevice     every replica has all parameters and makes the same update with the reduced gradient, so they stay
//                   equal (MultiGpuReplicator, MirroredStrategy)
//   CentralStorage  parameters, optimiser slots and updates are replica 0's alone: gradients go there, and values come
//                   from there before each step (CentralStorageStrategy)
//
// Both give the bits that one replica gives on the whole batch when the stripes are the same in all (in_stripes()).
// MultiDevice's replicas on devices of one PJRT plug-in are one program, whose launches may be of several steps
// (TpuReplicator); each then has rows for the largest share of the batch.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/collectives/in_process.hpp>
#include <troupe/core/error.hpp>
#include <troupe/learner/engine/program.hpp>
#include <troupe/learner/engine/thread_team.hpp>
#include <troupe/learner/replicate/consistency.hpp>
#include <troupe/learner/replicate/replicator.hpp>

namespace troupe::learner {

struct DeviceReplicasOptions {
  int replicas = 2;
  std::int64_t global_batch = 0;     ///< divided evenly; some replicas have one row more when that leaves a rest
  CompileOptions compile;            ///< of each replica
  std::vector<Device> devices = {};  ///< replica i has the i-th modulo their count; empty: all have compile.device
  std::int64_t first_step = 0;       ///< InputContext::first_step
  std::int64_t check_every_steps = kCheckEverySteps;  ///< of MultiDevice, see keep_consistent()
  /// How they reduce what MultiDevice's optimisers and collectives in the step reduce; all give the same bits. With
  /// kCollective, MultiDevice's replicas that have a GPU each do it by NCCL, where there is NCCL: in its order of sums.
  collectives::InProcessAlgorithm reduce = collectives::InProcessAlgorithm::kCollective;
  std::string nccl_interface = {};  ///< NcclOptions::interface: of all of this process's replicas on GPUs
  std::string name = "replicas";    ///< in the log
};

/// What both have in common. Not thread-safe; its threads sleep between steps.
class DeviceReplicas : public Replicator {
 public:
  ~DeviceReplicas() override;
  int steps_per_launch() const override { return together_ ? replicas_[0].program->steps_per_launch() : 1; }
  /// A pipeline that says kOutOfRange has ended: its replica goes on without rows, until all have ended.
  Status stage() override;
  int staged() const override { return staged_; }
  /// After an error all replicas are where they were, and the step is still staged; one program's have lost theirs.
  Status begin() override;
  bool finished() override;
  Status finish() override;
  Program& program() override { return *replicas_[0].program; }
  std::span<const float> output(std::string_view name, int step) override;
  BatchView batch() const override { return replicas_[0].batch.value_or(BatchView{}); }
  const InputPipeline& input() const override { return *replicas_.front().input; }

  int replicas() const { return static_cast<int>(replicas_.size()); }
  Program& program(int replica) { return *replicas_[static_cast<std::size_t>(replica)].program; }

 protected:
  enum class Updates { kMirrored, kCentral };
  struct OneReplica {
    std::unique_ptr<collectives::Communicator> communicator;
    std::unique_ptr<InputPipeline> input;
    std::unique_ptr<Program> program;
    std::optional<BatchView> batch;  ///< taken for the step at hand, or of the last one
    bool fresh = false;              ///< taken for a step that is not staged yet, because another had nothing
    std::int64_t staged_rows = 0;    ///< of one program's launch
    Status status;
  };

  explicit DeviceReplicas(const DeviceReplicasOptions& options)
      : options_(options),
        hub_(options.reduce),
        replicas_(static_cast<std::size_t>(options.replicas)),
        threads_(options.replicas) {}
  Status build(Replica& replica, Updates updates);
  bool is_one_program() const { return together_ != nullptr; }
  /// Begins what is staged. Of a step that the host takes, all of it, with what may fail before every change.
  virtual Status train() = 0;
  /// job(replica) on each one's thread; the first failure breaks the collectives of the others, and is returned.
  Status on_all(const std::function<Status(std::size_t replica)>& job);

  const DeviceReplicasOptions& options() const { return options_; }
  std::vector<OneReplica>& all() { return replicas_; }
  ThreadTeam& threads() { return threads_; }

 private:
  Status join();
  std::vector<Device> devices_of_replicas() const;
  /// Whether the replicas' values can meet on their GPUs; the log says so, and why they cannot.
  bool meet_on_gpus(const std::vector<Device>& devices) const;
  /// Makes them one program where their engine has such; the log says so, and why they cannot.
  Status join_programs(const std::vector<Device>& devices);
  Status stage_together();
  Status reform(bool by_nccl);

  const DeviceReplicasOptions options_;
  collectives::InProcessHub hub_;
  std::vector<OneReplica> replicas_;
  ThreadTeam threads_;
  std::uint64_t epoch_ = 0;
  bool joined_ = false;
  int staged_ = 0;
  bool stepped_ = false;
  std::vector<float> output_;           ///< of all replicas, when somebody asked
  bool nccl_ = false;                   ///< communicators are NCCL's; their host()s are the hub's
  std::shared_ptr<Together> together_;  ///< null: they are programs of their own
};

class MultiDevice final : public DeviceReplicas {
 public:
  /// Errors: kInvalidArgument (replicas, batch); what input_fn, the graph or its compilation say.
  static Result<std::unique_ptr<MultiDevice>> make(Replica& replica, const DeviceReplicasOptions& options);

 private:
  using DeviceReplicas::DeviceReplicas;
  Status train() override;
  std::int64_t begun_ = 0;  ///< Program::step() before the last launch
};

class CentralStorage final : public DeviceReplicas {
 public:
  /// Errors: as MultiDevice.
  static Result<std::unique_ptr<CentralStorage>> make(Replica& replica, const DeviceReplicasOptions& options);

 private:
  using DeviceReplicas::DeviceReplicas;
  Status train() override;
  /// The parameters, which are replica 0's, by group.
  std::vector<std::span<const float>> stored();
  void reduce_gradients();
};

}  // namespace troupe::learner
