#pragma once
// The replica API (TF-Replicator, arXiv 1902.00465, section 3): what a user writes to be trained on one core or on many
// machines. A replica says where its input comes from (input_fn) and what one step does (step_fn); a replicator
// (learner/replicate/replicator.hpp) decides how many copies run, where, and how they reduce. An agent learns by
// a replica whose input_fn samples replay. Nothing in a replica changes between replicators.
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
#include <troupe/core/metrics.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/learner/graph/graph.hpp>
#include <troupe/learner/graph/optimizer.hpp>
#include <troupe/learner/graph/param_buffer.hpp>

namespace troupe::learner {

/// For which replica an input pipeline is made, so that it can take its share of the data.
struct InputContext {
  int replica_id = 0;  ///< 0..replica_count-1
  int replica_count = 1;
  std::int64_t replica_batch = 0;  ///< rows of each batch of this replica
  std::int64_t global_batch = 0;   ///< rows of one step over all replicas
  /// Steps that were taken before: the first batch is that of this step. Not 0 when training goes on from a checkpoint
  /// or a group has a new size, so a pipeline without state of its own goes on where the last one was. (With gradient
  /// accumulation: runs, since each takes a batch.)
  std::int64_t first_step = 0;
  int devices = 1;  ///< logical devices of each replica
};

/// A replica's stream of batches of one signature. Used by one thread.
class InputPipeline {
 public:
  virtual ~InputPipeline() = default;
  virtual const Signature& signature() const = 0;
  /// The next batch, borrowed until the next call; InputContext::replica_batch rows, or fewer: then the means of the
  /// step are over those that there are. Never blocks. Errors: kUnavailable when there is none yet (the step is not
  /// taken and may be tried again); kOutOfRange when the input has ended; others end training.
  virtual Result<BatchView> next() = 0;
  /// Whether next() may say kOutOfRange; the same on all replicas. One whose input has ended goes on without rows, and
  /// replicas in several processes agree before each step on whether anybody has some.
  virtual bool ends() const { return false; }
  /// What it has to report about itself, such as the images that it could make in a second.
  virtual std::vector<Scalar> gauges() const { return {}; }
};

using InputFn = std::function<Result<std::unique_ptr<InputPipeline>>(const InputContext&)>;

/// Pipelines that their owner fills by hand: whoever receives batches as messages offers one, then steps.
class BatchSlot {
 public:
  explicit BatchSlot(Signature signature) : signature_(std::move(signature)) {}
  BatchSlot(const BatchSlot&) = delete;
  BatchSlot& operator=(const BatchSlot&) = delete;

  /// The next batch of all pipelines. It borrows `batch` until the step that takes it has ended, and replaces one that
  /// was not taken. Errors: kShapeMismatch naming the column.
  Status offer(const BatchView& batch);
  /// A pipeline onto this slot, which must outlive it; it gives what is offered from now on. A batch of more rows than
  /// context.replica_batch is for all replicas of the process: each takes its share, rows [r B / N, (r + 1) B / N).
  std::unique_ptr<InputPipeline> pipeline(const InputContext& context = {}) const;

 private:
  class Pipeline;
  Signature signature_;
  BatchView batch_;
  std::int64_t offers_ = 0;
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

struct Meeting;  // learner/replicate/step_collectives.hpp

/// What step_fn builds into, and how its replica meets the others. All replicas of a group must build the same step.
/// Values are weighted by the rows that each replica has in the step at hand, so the gradients are exact for uneven and
/// short batches. With L = sum(w_i L_i) / sum(w_i) over replicas' losses, every gradient rule below makes
/// wrap_optimizer's mean gradient that of L. A replica without rows takes part, but its values have no weight.
///
/// Every collective holds up all stripes of the replica, so keep them few. x: float32 at run time, of the same shape on
/// all replicas; where it is a sum over stripes, that is added up first, where it is split by rows, row i meets row i.
/// `name` is what errors call it ("D/block2/conv1"); without one, its place in the step. One replica on its own gets
/// the value itself. Several that cannot meet within a step (workers of a parameter server) cannot build one with
/// collectives: the graph fails with kInvalidArgument, naming the first.
class ReplicaContext {
 public:
  /// communicator: null for a replica on its own, or whose gradients alone meet the others'; otherwise it outlives
  /// every program compiled from the graph.
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

  /// Whether replicas can meet within a step. Those that cannot, the workers of a parameter server, refuse the
  /// collectives below.
  bool meets() const { return communicator_ != nullptr || input_.replica_count == 1; }

  /// kSum, kMean, kMin or kMax over replicas, element by element. Backward: of the minimum and maximum to the replicas
  /// that hold it, in equal parts; see below for the others. A replica without rows holds no extremum.
  Var all_reduce(Var x, collectives::ReduceOp op, std::string_view name = {});
  /// sum(x_i) over replicas. Backward: sum(w_j dy_j) / w_i.
  Var all_sum(Var x, std::string_view name = {}) { return all_reduce(x, collectives::ReduceOp::kSum, name); }
  /// sum(w_i x_i) / sum(w_i) over replicas. Backward: the same of the gradients.
  Var all_mean(Var x, std::string_view name = {}) { return all_reduce(x, collectives::ReduceOp::kMean, name); }
  /// [replicas, shape of x], replica i's x at row i. Of a value split by rows, those that are no data are zero.
  /// Backward: sum(w_j dy_j[i]) / w_i.
  Var all_gather(Var x, std::string_view name = {});
  /// Row i of the kSum or kMean over replicas of x, [replicas, ...], on replica i; x is not split by rows.
  /// Backward: replica j's gradient at row j, times w_j / w_i for the sum, w_j / sum(w) for the mean.
  Var reduce_scatter(Var x, collectives::ReduceOp op, std::string_view name = {});
  /// x of replica `root`. Backward: sum(w_j dy_j) / w_root there, zero elsewhere (so without rows, root has none).
  Var broadcast(Var x, int root, std::string_view name = {});

  /// fn(items[i]) for all i, divided over replicas: replica r computes those with i mod replicas = r. Results must not
  /// be split by rows and are of one shape; they end everywhere, as [items, shape] or reduced over items (kSum, kMean
  /// without weights, kMin, kMax) in an order that does not depend on the number of replicas. fn makes no parameters
  /// and calls no collective, since not every replica runs it on every item. For users' own replicas (the names are
  /// tf.distribute's); of what ships only the tests call it.
  Var map_gather(std::span<const Var> items, const std::function<Var(Var)>& fn, std::string_view name = {});
  Var map_reduce(std::span<const Var> items, const std::function<Var(Var)>& fn, collectives::ReduceOp op,
                 std::string_view name = {});

  /// What replicas share of a parameter (kSync until this is called) or of state (kLocal). A target or average has its
  /// online group's policies. The gradient norm that clips is that of the kSync parameters, if there are any, so that
  /// these stay equal. Replicators compare what is kSync every so many steps, and give all rank 0's kBroadcast.
  void set_policy(Var variable, VariablePolicy policy);
  /// Of all parameters that the group has so far; it is an online one.
  void set_policy(ParamGroup group, VariablePolicy policy);
  /// Graph::assign(), but state of policy kSync becomes the replicas' mean of `value`.
  void assign(Var state, Var value);

  /// The same optimiser, but it first replaces its group's flat gradient by the replicas' mean.
  OptimizerSpec wrap_optimizer(OptimizerSpec optimizer);
  /// How gradients travel: kF32 (the default), or kBF16 for half the bytes, which rounds them. Before wrap_optimizer.
  void set_gradient_wire(DType wire) { wire_ = wire; }
  /// For replicators that reduce gradients themselves: wrap_optimizer() leaves them as they are.
  void leave_gradients() { leave_gradients_ = true; }

 private:
  /// For the next collective.
  Meeting meeting(std::string_view kind, std::string_view name);
  /// Fails the graph when there are other replicas and no way to meet them.
  bool can_meet(std::string_view call, std::string_view name);
  ParamEntry* entry(Var variable);
  Var map(std::span<const Var> items, const std::function<Var(Var)>& fn, const collectives::ReduceOp* op,
          std::string_view name);

  Graph& graph_;
  InputContext input_;
  collectives::Communicator* communicator_;
  DType wire_ = DType::kF32;
  bool leave_gradients_ = false;
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

using StepFn = std::function<void(ReplicaContext& context, const StepInputs& inputs)>;

/// A replica of two functions. What ships is made in this way, and one's own where the two share no state.
/// options_status: what is wrong with the options that step_fn reads. input_fn returns it, so that no step is built.
std::unique_ptr<Replica> make_replica(InputFn input_fn, StepFn step_fn, Status options_status = {});

}  // namespace troupe::learner
