#pragma once
// One worker of a parameter server: a replicator whose step computes the gradient of its replica at parameters that it
// was given, piece by piece, by the shards, and leaves the update to them: gradients() packs a piece for each. Passive:
// actors/roles/ps_worker_actor moves the messages. The replica's code is the same as under every other replicator: its
// optimisers are read from its graph and run by the shards, at the shards' versions; wrap_optimizer and the collectives
// see one replica on its own.
//
// What an update needs the whole gradient for happens here, before the push: max_global_norm clips each worker's own
// gradient, and one that is not finite is pushed to no shard. Replica state (batch-norm statistics) stays with its
// worker.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/learner/engine/program.hpp>
#include <troupe/learner/replicate/parameter_server/served_model.hpp>
#include <troupe/learner/replicate/replica.hpp>
#include <troupe/learner/replicate/replicator.hpp>
#include <troupe/messages/gradient.hpp>
#include <troupe/messages/parameters.hpp>

namespace troupe::learner {

/// How workers and shards make the same plan of the same replica.
struct ParameterServerPlan {
  InputContext input;      ///< of the worker; of a shard: of worker 0
  CompileOptions compile;  ///< the same seed on all: the shards start from the program's parameters
  std::size_t shards = 1;
  ParamPartition partition = ParamPartition::kPartitioned;
  std::int64_t part_bytes = kDefaultPartBytes;
};

/// What shards hold of a step.
struct ServedStep {
  std::shared_ptr<const ServedModel> model;
  std::vector<ShardPlan> plans;  ///< by shard
};
/// Errors: the graph's; kInvalidArgument when nothing is optimised, or when LARS needs a variable that the plan cuts or
/// that travels as rows.
Result<ServedStep> plan_served(const Graph& graph, const ParameterServerPlan& plan);

/// A replica that was built for a parameter server.
struct ServedReplica : ServedStep {
  std::unique_ptr<InputPipeline> input;
  std::unique_ptr<Program> program;
};
/// Errors: what input_fn, the graph or its compilation say; those of plan_served().
Result<ServedReplica> build_served(Replica& replica, const ParameterServerPlan& plan);

/// Its step count is the version of the parameters that are loaded.
class ParameterServerWorker final : public Replicator {
 public:
  /// transfer: of the gradients, kF32 or kBF16. Errors: those of build_served().
  static Result<std::unique_ptr<ParameterServerWorker>> make(Replica& replica, const ParameterServerPlan& plan,
                                                             DType transfer);

  std::uint64_t model_hash() const { return model_hash_; }
  std::size_t shards() const { return replica_.plans.size(); }

  /// Copies a shard's parameters into the program, which has new ones when every shard's have come since the last
  /// begin(). Errors: kShapeMismatch: they are not of this model or plan; nothing changed.
  Status load(const messages::ParametersView& piece);
  /// Of the piece of a shard that is loaded; -1 before the first.
  std::int64_t version(std::size_t shard) const { return versions_[shard]; }
  /// The least over the shards: all of the parameters are of this version or a newer one.
  std::int64_t version() const;

  Status stage() override;
  int staged() const override { return staged_; }
  /// Computes the gradient of the staged batch. Every shard's parameters must be loaded.
  Status begin() override;
  Status finish() override { return {}; }
  /// What begin() computed, a message for each shard; empty when it is not finite, which is counted: the next batch may
  /// be better. Errors: the pool's; kInternal when this was the kMaxNotFinite-th in a row.
  Result<std::vector<messages::Frame>> gradients(messages::FramePool& pool);

  Program& program() override { return *replica_.program; }
  BatchView batch() const override { return batch_; }
  const InputPipeline& input() const override { return *replica_.input; }
  std::int64_t batches() const { return batches_; }        ///< computed; begins at InputContext::first_step
  std::int64_t not_finite() const { return not_finite_; }  ///< gradients that were not pushed

  static constexpr std::int64_t kMaxNotFinite = 10;

 private:
  ParameterServerWorker(ServedReplica replica, const ParameterServerPlan& plan, DType transfer);

  /// What the gradient of a group is multiplied by to be no longer than its optimiser allows.
  float clip_scale(std::size_t group);
  /// The rows of a segment whose gradient is not zero.
  void find_rows(const ShardSegment& segment, std::vector<std::uint32_t>& rows);
  /// A shard's message; null when a value is not finite.
  Result<messages::Frame> pack(messages::FramePool& pool, const ShardPlan& plan);
  std::span<const float> gradient_of(const ShardSegment& segment);

  ServedReplica replica_;
  InputContext input_;
  DType transfer_;
  std::uint64_t model_hash_;
  std::vector<std::int64_t> versions_;
  std::vector<bool> loaded_;   ///< by shard, since the last begin()
  std::vector<float> scales_;  ///< by group
  BatchView batch_;
  int staged_ = 0;
  std::int64_t batches_ = 0;
  std::int64_t not_finite_ = 0, not_finite_in_a_row_ = 0;
};

}  // namespace troupe::learner
