#pragma once
// The replica API (TF-Replicator, arXiv 1902.00465, section 3): what a user writes to be trained on one core or on many
// machines. A replica says where its input comes from (input_fn) and what one step does (step_fn); a replicator
// (learner/replicator.hpp) decides how many copies run, where, and how they reduce. D4PG is a replica whose input_fn
// samples replay. Nothing in a replica changes between replicators.
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <troupe/collectives/communicator.hpp>
#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/learner/graph.hpp>
#include <troupe/learner/optimizer.hpp>

namespace troupe::learner {

/// For which replica an input pipeline is made, so that it can take its share of the data.
struct InputContext {
  int replica_id = 0;  ///< 0..replica_count-1
  int replica_count = 1;
  std::int64_t replica_batch = 0;  ///< rows of each batch of this replica
  std::int64_t global_batch = 0;   ///< rows of one step over all replicas
  /// Steps that were taken before: the first batch is that of this step. Not 0 when training goes on from a checkpoint
  /// or a group has a new size, so a pipeline without state of its own goes on where the last one was.
  std::int64_t first_step = 0;
  int devices = 1;  ///< logical devices of each replica
};

/// A replica's stream of batches of one signature. Used by one thread.
class InputPipeline {
 public:
  virtual ~InputPipeline() = default;
  virtual const Signature& signature() const = 0;
  /// The next batch, borrowed until the next call; InputContext::replica_batch rows. Never blocks.
  /// Errors: kUnavailable when there is none yet (the step is not taken and may be tried again); others end training.
  virtual Result<BatchView> next() = 0;
};

using InputFn = std::function<Result<std::unique_ptr<InputPipeline>>(const InputContext&)>;

/// A pipeline that its owner fills by hand: whoever receives batches as messages offers one, then steps.
class BatchSlot {
 public:
  explicit BatchSlot(Signature signature) : signature_(std::move(signature)) {}
  BatchSlot(const BatchSlot&) = delete;
  BatchSlot& operator=(const BatchSlot&) = delete;

  /// The pipeline's next batch. It borrows `batch` until the step that takes it has ended, and replaces one that was
  /// not taken. Errors: kShapeMismatch naming the column.
  Status offer(const BatchView& batch);
  /// A pipeline onto this slot, which must outlive it.
  std::unique_ptr<InputPipeline> pipeline();

 private:
  class Pipeline;
  Signature signature_;
  BatchView batch_;
  bool full_ = false;
};

/// The graph inputs of a step, one for each column of the pipeline's signature.
class StepInputs {
 public:
  StepInputs(Graph& graph, const Signature& signature);
  /// The column `name`; an unknown one fails the graph.
  Var operator[](std::string_view name) const;

 private:
  Graph& graph_;
  std::vector<std::pair<std::string, Var>> columns_;
};

/// What step_fn builds into, and how its replica meets the others. All replicas of a group must build the same step.
/// Values are weighted by each replica's rows, so the gradients are exact for uneven batches. With L = sum(w_i L_i) /
/// sum(w_i) over replicas' losses, every gradient rule below makes wrap_optimizer's mean gradient that of L.
class ReplicaContext {
 public:
  /// communicator: null for a replica on its own; otherwise it outlives every program compiled from the graph.
  ReplicaContext(Graph& graph, const InputContext& input, collectives::Communicator* communicator);

  Graph& graph() { return graph_; }
  /// Which replica this is, of how many, and its share of the batch.
  const InputContext& input() const { return input_; }

  /// Logical devices that this replica runs on, each on a thread of its own.
  int devices() const { return input_.devices; }
  /// Places what is built while the scope lives, and later its gradients, on logical device `index` modulo devices():
  /// `{ const auto on = ctx.device(1); h = linear(...); }`. Devices run at the same time wherever values allow it
  /// (model parallelism: TF-Replicator section 3.4), and change no bit of any result. Parameters are shared by all.
  DeviceScope device(int index) { return {graph_, index}; }

  /// sum(x_i) over replicas; x has the same shape everywhere, and float32 at run time. Backward: sum(w_j dy_j) / w_i.
  /// Both collectives hold up all shards of the replica, so keep them few.
  Var all_sum(Var x);
  /// sum(w_i x_i) / sum(w_i) over replicas. Backward: the same of the gradients.
  Var all_mean(Var x);

  /// The same optimiser, but it first replaces its group's flat gradient by the replicas' mean: one all-reduce.
  OptimizerSpec wrap_optimizer(OptimizerSpec optimizer);

 private:
  /// All-reduces over replicas, then multiplies by `factor`.
  JointFn all_reduce(collectives::ReduceOp op, double factor);

  Graph& graph_;
  InputContext input_;
  collectives::Communicator* communicator_;
  int calls_ = 0;  // names the collectives; equal on all replicas, since all build the same step
};

/// What is trained. Builds graphs, holds no parameters.
class Replica {
 public:
  virtual ~Replica() = default;
  /// Called once for each replica, before step_fn.
  virtual Result<std::unique_ptr<InputPipeline>> input_fn(const InputContext& context) = 0;
  /// Builds one step: losses, minimize() with wrapped optimisers, metrics and outputs. Errors go to the graph's status.
  virtual void step_fn(ReplicaContext& context, const StepInputs& inputs) = 0;
};

}  // namespace troupe::learner
