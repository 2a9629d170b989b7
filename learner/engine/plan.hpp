#pragma once
// From a graph to what a program runs: the nodes that something reads, in order, and a place for every value. The same
// for all stripes; each stripe has its own arena with the same offsets. Devices run at the same time, each its own
// nodes in order, so each has a region of the arena for what only it touches, and what another one reads stays to the
// end.
#include <cstdint>
#include <vector>

#include <troupe/learner/engine/cpu/convolution.hpp>
#include <troupe/learner/graph/graph_data.hpp>

namespace troupe::learner {

enum class Storage : std::uint8_t {
  kNone,      ///< nobody reads it: kernels get null
  kArena,     ///< the stripe's arena, `offset` in bytes
  kInput,     ///< what was bound to input `index`
  kConstant,  ///< constant `index`
  kParam,     ///< group `index`, `offset` in elements
  kShadow,    ///< the same in the group's bfloat16 copy
  kState,     ///< state, `offset` in elements
  kGradient,  ///< the stripe's gradient buffer of group `index`, `offset` in elements
  kOutput,    ///< rows of output `index`
};

struct PlanValue {
  ValueSpec spec;
  Storage storage = Storage::kNone;
  std::int32_t index = 0;
  std::int64_t offset = 0;
  std::uint32_t root = 0;  ///< the value whose memory this is: itself, or what it is an alias of
};

/// Before a node runs, `device` must be past its node `node`. Always an earlier node, so waiting cannot go in a circle.
struct PlanWait {
  int device = 0;
  std::uint32_t node = 0;
};

struct PlanNode {
  const OpDef* op = nullptr;  ///< null: joint
  std::vector<std::uint32_t> inputs;
  std::vector<std::uint32_t> outputs;
  Attr attr;
  std::int32_t joint = -1;
  int device = 0;
  std::vector<PlanWait> waits{};  ///< what the node needs of other devices, less what its device has waited for before
  bool awaited = false;           ///< in a wait of another device
  std::int32_t minimized = -1;  ///< the only one (of GraphData::minimized) whose gradient needs the node; -1: others do
  ConvShape conv{};  ///< for the largest stripe: of a convolution, or of the one that pack_weight_op() packs for
};

struct PlanOptions {
  std::int64_t batch = 0;
  std::int64_t rows = 0;        ///< examples of the largest stripe
  int devices = 1;              ///< logical ones are taken modulo it
  DType compute = DType::kF32;  ///< kF32, kBF16 or kF64
  ComputeBy by = GemmBackend::kAuto;
  /// Weights of convolutions are packed as the GPU's plug-in wants them, whatever `by` says, and bfloat16 products
  /// of few rows are no exception.
  bool gpu = false;
};

struct Plan {
  std::vector<PlanValue> values;  ///< those of the graph under their ids, then the planner's own
  std::vector<PlanNode> nodes;
  // For each output, metric and assignment of the graph, the value to read after a run.
  std::vector<std::uint32_t> outputs, metrics, assigned;
  std::int64_t arena_bytes = 0;
};

/// In a bfloat16 program the operands of products are bfloat16 copies (on the processor not of is_skinny() ones), and
/// images (rank 4, split by rows) are stored as bfloat16 wherever their makers and readers know how; conversions stand
/// between these and all others.
/// Errors: those of convolutions, see packed_bytes().
Result<Plan> make_plan(const GraphData& data, const PlanOptions& options);
/// Bytes of an element of a value in a program of this compute type.
std::int64_t element_bytes(DType value, DType compute);

}  // namespace troupe::learner
