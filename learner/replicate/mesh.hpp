#pragma once
// More than placing whole stages: linear layers split over the devices of one replica (Mesh-TensorFlow, arXiv
// 1811.02084; the alternation of columns and rows is Megatron-LM's, arXiv 1909.08053), and stages in a pipeline. Used
// in step_fn (algorithms/classifier). However a network is split, its parameters have their full shapes, names and
// initial values, so that checkpoints fit every split and number of devices, and results differ from the unsplit
// network's by rounding only.
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <troupe/learner/graph/graph.hpp>
#include <troupe/learner/ops/linear.hpp>
#include <troupe/learner/replicate/replica.hpp>

namespace troupe::learner {

/// activation(x weight + bias), parameters "NAME/weight" [in, out] and "NAME/bias" [out]; `in` is x's.
struct LinearLayer {
  ParamGroup group;
  std::string_view name;
  std::int64_t out = 0;
  Activation activation = Activation::kNone;
  Init weight;
  Init bias;
};

/// By what the devices share a layer.
enum class Split : std::uint8_t {
  kNone,   ///< not at all: the whole layer on the graph's present device
  kBatch,  ///< each has an equal part of the rows and the whole weight; as many as divide the batch evenly take part
  /// Of two layers in a row: each has columns of the first weight and the matching rows of the second one, so nothing
  /// passes between devices but x and partial sums of the second's result, which are added in order of devices.
  kHidden,
};

/// A matrix that is whole, or in pieces that lie on devices 0, 1, ... and are cut by rows or by columns.
class MeshValue {
 public:
  MeshValue(Var whole) : pieces_{whole} {}  // implicit: what is whole goes in anywhere
  /// The pieces put together on the graph's present device.
  Var whole() const;

 private:
  friend MeshValue mesh_linear(ReplicaContext& context, const MeshValue& x, const LinearLayer& layer, Split split);
  MeshValue(std::vector<Var> pieces, int axis) : pieces_(std::move(pieces)), axis_(axis) {}
  std::vector<Var> pieces_;
  int axis_ = -1;  ///< 0: cut by rows, 1: by columns, -1: whole
};

/// One layer. x: [batch, in]. Returns [batch, out]: for kNone whole, for kBatch cut by rows, for kHidden cut by columns
/// when x was not, and whole when it was. With one device it is the unsplit layer, bit for bit.
/// Errors (of the graph): kShapeMismatch. Of the compilation: a stripe whose rows kBatch cannot cut evenly.
MeshValue mesh_linear(ReplicaContext& context, const MeshValue& x, const LinearLayer& layer, Split split);

/// One stage of a network: from the one before, [rows, ...], to the next. Called for each part of the batch, so it
/// makes its parameters under the same names each time, and treats rows alone: nothing like batch norm, nothing
/// assigned.
using Stage = std::function<Var(Var)>;

/// stages.back()(... stages[0](x)), stage i on device i. Alone, a chain of stages keeps one device busy at a time; so
/// the batch is cut into `parts`, and while a stage has one part the next stage has the part before, forwards and
/// backwards (GPipe, arXiv 1811.06965; the idle share is (S - 1) / (parts + S - 1) for S even stages). Parts are added
/// up in the gradients of the parameters, so results differ from those of one part by rounding only. x: split by rows.
/// Errors (of the graph): kInvalidArgument when parts does not divide the batch, or a stage sums over rows, has a joint
/// or assigns a state.
Var pipeline(ReplicaContext& context, Var x, std::int64_t parts, std::span<const Stage> stages);

}  // namespace troupe::learner
