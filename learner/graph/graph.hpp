#pragma once
// The define-once static graph: what one learner step, or one policy forward pass, computes. Replicas and policies
// build it once with the free functions of learner/ops/; Program (learner/engine/program.hpp) compiles it to a flat
// list of kernel calls over one arena. Building is the only time that shapes are checked and derivatives are taken
// (reverse mode emits ordinary nodes), so a step does neither.
//
// Errors are sticky: the first one is kept in status(), every later operation returns an invalid Var, and
// Program::compile returns it. So builders read like arithmetic and are checked once, at the end.
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/learner/graph/op.hpp>
#include <troupe/learner/graph/optimizer.hpp>

namespace troupe::learner {

/// A handle to a named set of parameters that is updated together, e.g. "critic", or to its target twin.
struct ParamGroup {
  std::int32_t index = -1;
  friend bool operator==(ParamGroup, ParamGroup) = default;
};

/// How a parameter or state tensor starts. Every tensor draws from its own generator, seeded by (compile seed, group,
/// tensor name), so that adding a layer does not change the numbers of the others.
struct Init {
  enum class Kind : std::uint8_t { kConstant, kUniform, kNormal, kTruncatedNormal, kOrthogonal };
  Kind kind = Kind::kConstant;
  /// The constant; half the width of the uniform interval [-value, value); the standard deviation; or the gain.
  double value = 0;

  static Init constant(double value) { return {Kind::kConstant, value}; }
  static Init uniform(double limit) { return {Kind::kUniform, limit}; }
  static Init normal(double stddev) { return {Kind::kNormal, stddev}; }
  /// Normal, redrawn until within two standard deviations.
  static Init truncated_normal(double stddev) { return {Kind::kTruncatedNormal, stddev}; }
  /// `gain` times a matrix with orthonormal rows or columns, whichever are fewer, uniform among these (Saxe et al.
  /// 2014, arXiv 1312.6120): the last dimension, a layer's outputs, against all others.
  static Init orthogonal(double gain) { return {Kind::kOrthogonal, gain}; }
};

/// What of some parameters Graph::keep_length() means: each column, that is the weights of one output of a layer, or
/// all of their numbers as one vector.
enum class LengthOf : std::uint8_t { kColumns, kAll };

/// Static graph over real (float32 when compiled by default), int32 and uint8 values. Not thread-safe; neither copies
/// nor moves, because every Var points to it. Programs compiled from it do not need it afterwards.
class Graph {
 public:
  /// batch: rows of every input over all stripes of this replica, at least 1.
  explicit Graph(std::int64_t batch);
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  std::int64_t batch() const { return batch_; }
  /// Where these rows begin in the batch of all replicas; random numbers of a row follow from it (learner/ops/random).
  std::int64_t first_row() const { return first_row_; }
  void set_first_row(std::int64_t row) { first_row_ = row; }

  /// A value bound anew each step: [batch, row_shape...]. kF32 or kI32 (a float64 program reads kF32 inputs as double),
  /// or kU8: bytes, such as images, which stay so until from_bytes() (learner/ops/image.hpp) makes real numbers of
  /// them.
  Var input(std::string_view name, const Shape& row_shape, DType dtype = DType::kF32);
  /// A value bound anew that has no batch dimension: every stripe sees all of it.
  Var shared_input(std::string_view name, const Shape& shape);
  /// values.size() == shape.elements().
  Var constant(const Shape& shape, std::vector<float> values);

  /// The group `name`, made at the first call.
  ParamGroup group(std::string_view name);
  /// The target twin of `online`: same layout, starts equal, never optimised, and is overwritten with the online values
  /// after every `every_steps`-th update. Build the target network with the function that built the online one.
  ParamGroup target(ParamGroup online, std::int64_t every_steps);
  /// The moving average of `online`, group "NAME.average": starts equal, never optimised, and after every update, or of
  /// those in every `every_steps`-th step, becomes decay * average + (1 - decay) * online, 0 < decay < 1 (Polyak's
  /// average, or a soft target). Build a network with it to evaluate; a graph need not.
  ParamGroup average(ParamGroup online, double decay, std::int64_t every_steps = 1);
  /// The parameter `name` of the group, made at the first call; later calls return the same Var, which is how a network
  /// is applied twice with shared weights. Errors: kShapeMismatch when it exists with another shape.
  Var param(ParamGroup group, std::string_view name, const Shape& shape, Init init);
  /// The optimiser's weight_decay leaves this parameter as it is, e.g. a bias, or a gain or offset of batch norm.
  void exempt_from_decay(Var param);

  /// Projects parameters of one group, at most four, onto an L2 norm: at first, and after each update of their group,
  /// before targets and averages follow, columns (with kColumns of all of them, which then have equally many) or all
  /// numbers together are multiplied by what makes them `length` long. Zeros stay. No gradient flows through it, so the
  /// optimiser's step is as it was. Said again of the same ones, as where a network is built twice, it changes nothing.
  /// Errors: kInvalidArgument, naming the parameter: of another group, of an average, or kept otherwise already.
  void keep_length(std::span<const Var> params, LengthOf of, double length = 1);
  void keep_length(std::initializer_list<Var> params, LengthOf of, double length = 1) {
    keep_length(std::span(params.begin(), params.size()), of, length);
  }

  /// Replica state: not optimised, kept in Program::state() and in checkpoints (batch-norm statistics, spectral-norm
  /// u). Made at the first call, later ones return the same Var. Errors: kShapeMismatch when it has another shape.
  Var state(std::string_view name, const Shape& shape, Init init);
  /// At the end of each step `state` becomes `value`, which must be replicated; of several calls the last one counts.
  void assign(Var state, Var value);
  /// What was assigned last in this step, else the state itself: for what moves a state several times in a step.
  Var latest(Var state);

  /// Makes `value`, which is not of bytes, readable after a run as Program::output(name).
  void output(std::string_view name, Var value);
  /// Makes a scalar readable after a run; sums over stripes are combined.
  void metric(std::string_view name, Var scalar);

  /// d loss / d wrt[i], same shapes. Emits only the nodes on paths from wrt to loss: the gradient of a policy through a
  /// critic makes no gradient of critic weights. Zero where loss does not depend on wrt[i].
  /// loss: scalar that is a sum over stripes (mean(), sum()) or replicated. Errors: an op on a path has no gradient.
  std::vector<Var> gradients(Var loss, std::span<const Var> wrt);
  /// Each step: gradients of `loss` for all parameters of the group, then the update that `spec` says. All gradients of
  /// a step are taken before the first update. At most once for each group.
  void minimize(Var loss, ParamGroup group, const OptimizerSpec& spec);

  /// Adds an operation; the way in for learner/ops/ and for users' own. Returns one Var for each output.
  std::vector<Var> emit(const OpDef& op, std::span<const Var> inputs, const Attr& attr = {});
  /// The same for operations with one output.
  Var emit1(const OpDef& op, std::initializer_list<Var> inputs, const Attr& attr = {});
  /// Adds a node that runs on one thread while all stripes wait, see learner/ops/joint.hpp. out: null for the shape and
  /// place of `value` (a sum over stripes comes out replicated); otherwise what `forward` makes, not a sum over
  /// stripes.
  Var emit_joint(Var value, JointFn forward, JointFn backward, const ValueSpec* out = nullptr);
  /// The largest of the stripes' parts of `value`, element by element, which are no summands although it says so; of
  /// learner/ops/reduce.hpp's greatest().
  Var emit_largest(Var value);
  /// The logical device of what is emitted from now on; a gradient goes where its forward node is. Programs map it to
  /// one of theirs (CompileOptions::devices). Users say it through DeviceScope. Errors: kOutOfRange when negative.
  void set_device(int device);
  int device() const { return device_; }
  /// Records an error unless there is one already. Returns an invalid Var.
  Var fail(Code code, std::string message);
  const Status& status() const { return status_; }

  const ValueSpec& spec(Var value) const;
  /// One line a node, in order: for tests and for people.
  std::string to_string() const;

 private:
  ParamGroup follower(ParamGroup online, std::string_view suffix, std::int64_t every_steps, double decay);

  friend struct GraphAccess;  // the planner's view (learner/graph/graph_data.hpp)
  std::int64_t batch_;
  std::int64_t first_row_ = 0;
  int device_ = 0;
  Status status_;
  std::unique_ptr<struct GraphData, void (*)(struct GraphData*)> data_;
};

/// What is emitted while it lives is placed on a logical device; scopes nest. `{ const DeviceScope on(graph, 1); ... }`
class [[nodiscard]] DeviceScope {
 public:
  DeviceScope(Graph& graph, int device) : graph_(graph), before_(graph.device()) { graph.set_device(device); }
  ~DeviceScope() { graph_.set_device(before_); }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  Graph& graph_;
  int before_;
};

}  // namespace troupe::learner
