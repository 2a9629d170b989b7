#include <troupe/learner/engine/plan.hpp>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <utility>

#include <troupe/core/check.hpp>
#include <troupe/learner/engine/cpu/gemm.hpp>
#include <troupe/learner/ops/internal.hpp>

namespace troupe::learner {

std::int64_t element_bytes(DType value, DType compute) {
  if (value == DType::kF32 && compute == DType::kF64) return 8;
  return static_cast<std::int64_t>(dtype_bytes(value));
}

namespace {

class Planner {
 public:
  Planner(const GraphData& data, const PlanOptions& options)
      : data_(data),
        batch_(options.batch),
        rows_(options.rows),
        devices_(options.devices),
        compute_(options.compute),
        by_(options.by),
        gpu_(options.gpu) {}

  Result<Plan> run() {
    place_sources();
    TROUPE_TRY(keep_live_nodes());
    place_results();
    find_occasional();
    order_devices();
    for (int device = 0; device < devices_; ++device) place_in_arena(device);
    return std::move(plan_);
  }

 private:
  static constexpr std::size_t kEnd = std::numeric_limits<std::size_t>::max();
  // On a GPU branches of the graph run at the same time where they have memory of their own (node_order.hpp): below
  // this, all values do.
  static constexpr std::int64_t kSpreadBytes = std::int64_t{256} << 20;

  PlanValue& root(std::uint32_t id) { return plan_.values[plan_.values[id].root]; }

  std::uint32_t new_value(const ValueSpec& spec, Storage storage) {
    const auto id = static_cast<std::uint32_t>(plan_.values.size());
    plan_.values.push_back({.spec = spec, .storage = storage, .root = id});
    return id;
  }

  void place_sources() {
    for (const Value& value : data_.values) {
      PlanValue& made = plan_.values[new_value(value.spec, Storage::kNone)];
      made.index = value.index;
      switch (value.source) {
        case Source::kInput:
          made.storage = Storage::kInput;
          break;
        case Source::kConstant:
          made.storage = Storage::kConstant;
          break;
        case Source::kParam: {
          const GroupDef& group = data_.groups[static_cast<std::size_t>(value.index)];
          const GroupDef& online = group.online < 0 ? group : data_.groups[static_cast<std::size_t>(group.online)];
          made.storage = Storage::kParam;
          made.offset = online.layout.entries[static_cast<std::size_t>(value.entry)].offset;
          break;
        }
        case Source::kState:
          made.storage = Storage::kState;
          made.offset = data_.state.layout.entries[static_cast<std::size_t>(value.entry)].offset;
          break;
        case Source::kNode:
          break;
      }
    }
  }

  /// Nodes that lead to something readable. Outputs that nobody reads keep Storage::kNone, so kernels skip them.
  Status keep_live_nodes() {
    std::vector<bool> read(data_.values.size(), false);
    for (const auto& list : {&data_.outputs, &data_.metrics}) {
      for (const NamedValue& value : *list) read[value.value] = true;
    }
    for (const MinimizeDef& minimized : data_.minimized) {
      for (const std::uint32_t id : minimized.gradients) read[id] = true;
    }
    for (const auto& [state, value] : data_.assigns) read[value] = true;
    std::vector<bool> live(data_.nodes.size(), false);
    for (std::size_t i = data_.nodes.size(); i-- > 0;) {
      const Node& node = data_.nodes[i];
      live[i] = std::ranges::any_of(node.outputs, [&](std::uint32_t id) { return read[id]; });
      if (!live[i]) continue;
      for (const std::uint32_t id : node.inputs) read[id] = true;
    }
    for (std::size_t i = 0; i < data_.nodes.size(); ++i) {
      if (live[i]) TROUPE_TRY(add_node(data_.nodes[i], read));
    }
    return {};
  }

  Status add_node(const Node& node, const std::vector<bool>& read) {
    if (node.op != nullptr && node.op->alias) {
      plan_.values[node.outputs[0]].root = plan_.values[node.inputs[0]].root;
      return {};
    }
    PlanNode made{node.op, node.inputs, node.outputs, node.attr, node.joint, node.device % devices_};
    for (const std::uint32_t id : node.outputs) {
      if (read[id]) plan_.values[id].storage = Storage::kArena;
    }
    if (compute_ == DType::kBF16) choose_types(node, made);
    if (node.op != nullptr && node.op->conv != nullptr) {
      made.conv = node.op->conv(largest_shapes(node), node.attr);
      if (made.conv.pass != ConvPass::kWeightGrad) {
        TROUPE_ASSIGN(made.inputs[1], packed(made.inputs[1], made.conv, made.device));
      }
    }
    plan_.nodes.push_back(std::move(made));
    return {};
  }

  std::vector<Shape> largest_shapes(const Node& node) const {
    std::vector<Shape> shapes;
    for (const std::uint32_t id : node.inputs) shapes.push_back(local_shape(data_.values[id].spec, batch_, rows_));
    return shapes;
  }

  static bool is_real(DType dtype) { return dtype == DType::kF32 || dtype == DType::kBF16; }
  static bool is_image(const ValueSpec& spec) { return spec.place == Place::kRows && spec.shape.rank() == 4; }

  /// What of a node's operands is bfloat16.
  void choose_types(const Node& node, PlanNode& made) {
    const bool images = node.op != nullptr && (node.op->conv != nullptr || node.op->bf16_kernel != nullptr);
    // The processor's own kernel for products of few rows takes float32; a GPU's library has no such exception.
    const bool product = node.op != nullptr && node.op->gemm != nullptr &&
                         (gpu_ || !is_skinny(node.op->gemm(largest_shapes(node), node.attr)));
    for (std::size_t i = 0; i < made.inputs.size(); ++i) {
      std::uint32_t& id = made.inputs[i];
      if (!is_real(plan_.values[id].spec.dtype)) continue;
      const bool wanted = product ? i < 2 : images && is_image(data_.values[id].spec);
      id = wanted ? as_bf16(id, made.device) : as_f32(id, made.device);
    }
    for (const std::uint32_t id : made.outputs) {
      const ValueSpec& spec = data_.values[id].spec;
      if (images && is_image(spec) && is_real(spec.dtype)) plan_.values[id].spec.dtype = DType::kBF16;
    }
  }

  /// The weight in the order that a convolution wants: one copy for all that want the same.
  Result<std::uint32_t> packed(std::uint32_t id, const ConvShape& conv, int device) {
    ValueSpec spec{Shape{conv.out * conv.kernel_h * conv.kernel_w * conv.in}, compute_, Place::kReplicated};
    if (!gpu_) {
      TROUPE_ASSIGN(const std::size_t bytes, packed_bytes(by_, conv, compute_));
      if (bytes == 0) return id;
      spec = {Shape{static_cast<std::int64_t>(bytes)}, DType::kU8, Place::kReplicated};
    }
    auto [found, missing] = packed_.try_emplace({plan_.values[id].root, conv}, 0);
    if (missing) {
      found->second = new_value(spec, Storage::kArena);
      plan_.nodes.push_back({.op = &pack_weight_op(), .inputs = {id}, .outputs = {found->second}, .device = device});
      plan_.nodes.back().conv = conv;
    }
    return found->second;
  }

  /// The float32 copy of an image that is stored as bfloat16.
  std::uint32_t as_f32(std::uint32_t id, int device) {
    const std::uint32_t from = plan_.values[id].root;
    if (plan_.values[from].spec.dtype != DType::kBF16) return id;
    auto [found, missing] = f32_.try_emplace(from, 0);
    if (missing) {
      ValueSpec spec = plan_.values[from].spec;
      spec.dtype = DType::kF32;
      found->second = new_value(spec, Storage::kArena);
      plan_.nodes.push_back({.op = &widen_op(), .inputs = {from}, .outputs = {found->second}, .device = device});
    }
    return with_shape(found->second, id);
  }

  /// The bfloat16 copy of a value that is not one: parameters have one already; others get one at first use, for all
  /// uses.
  std::uint32_t as_bf16(std::uint32_t id, int device) {
    const std::uint32_t from = plan_.values[id].root;
    if (plan_.values[from].spec.dtype == DType::kBF16) return id;
    auto [found, missing] = bf16_.try_emplace(from, 0);
    if (!missing) return with_shape(found->second, id);
    ValueSpec spec = plan_.values[from].spec;
    spec.dtype = DType::kBF16;
    if (plan_.values[from].storage == Storage::kParam) {
      found->second = new_value(spec, Storage::kShadow);
      plan_.values[found->second].index = plan_.values[from].index;
      plan_.values[found->second].offset = plan_.values[from].offset;
    } else {
      found->second = new_value(spec, Storage::kArena);
      plan_.nodes.push_back({.op = &cast_op(), .inputs = {from}, .outputs = {found->second}, .device = device});
    }
    return with_shape(found->second, id);
  }

  /// The copy under the shape that `like` has, which may be a reshaped view.
  std::uint32_t with_shape(std::uint32_t copy, std::uint32_t like) {
    if (plan_.values[copy].spec.shape == plan_.values[like].spec.shape) return copy;
    ValueSpec spec = plan_.values[like].spec;
    spec.dtype = plan_.values[copy].spec.dtype;
    const std::uint32_t made = new_value(spec, Storage::kNone);
    plan_.values[made].root = copy;
    return made;
  }

  /// Gradients go straight to their place in the flat buffer and outputs to theirs, unless the value lies elsewhere or
  /// is wanted at two places; then a copy is added.
  void place_results() {
    for (const MinimizeDef& minimized : data_.minimized) {
      const ParamLayout& layout = data_.groups[static_cast<std::size_t>(minimized.group)].layout;
      for (std::size_t entry = 0; entry < minimized.gradients.size(); ++entry) {
        PlanValue& to = settle(minimized.gradients[entry], Storage::kGradient);
        to.index = minimized.group;
        to.offset = layout.entries[entry].offset;
      }
    }
    for (const NamedValue& output : data_.outputs) {
      if (plan_.values[output.value].spec.place == Place::kRows) {
        PlanValue& to = settle(output.value, Storage::kOutput);
        to.index = static_cast<std::int32_t>(plan_.outputs.size());
        plan_.outputs.push_back(to.root);
      } else {
        plan_.outputs.push_back(readable_after_run(output.value));
      }
    }
    for (const NamedValue& metric : data_.metrics) plan_.metrics.push_back(readable_after_run(metric.value));
    for (const auto& [state, value] : data_.assigns) plan_.assigned.push_back(readable_after_run(value));
  }

  /// After a run a gradient's place holds the sum over stripes, parameters and state are updated, and an input's memory
  /// is the caller's again: of those a copy is kept.
  std::uint32_t readable_after_run(std::uint32_t id) {
    const Storage storage = root(id).storage;
    const bool stays = storage == Storage::kArena || storage == Storage::kConstant;
    if (!stays || root(id).spec.dtype == DType::kBF16) id = settle(id, Storage::kArena).root;
    pinned_.push_back(id);
    return id;
  }

  /// Makes the value lie in `storage`, and returns the value that does.
  PlanValue& settle(std::uint32_t id, Storage storage) {
    const bool narrow = root(id).spec.dtype == DType::kBF16;
    if (root(id).storage == Storage::kArena && storage != Storage::kArena && !narrow) {
      root(id).storage = storage;
      return root(id);
    }
    ValueSpec spec = plan_.values[id].spec;
    if (narrow) spec.dtype = DType::kF32;
    const std::uint32_t copy = new_value(spec, storage);
    const std::uint32_t from = plan_.values[id].root;
    const auto maker = std::ranges::find_if(
        plan_.nodes, [&](const PlanNode& node) { return std::ranges::count(node.outputs, from) > 0; });
    const int device = maker == plan_.nodes.end() ? 0 : maker->device;
    plan_.nodes.push_back(
        {.op = narrow ? &widen_op() : &identity_op(), .inputs = {id}, .outputs = {copy}, .device = device});
    return plan_.values[copy];
  }

  /// Marks the nodes that serve the gradient of one group only, where not every step updates that group.
  void find_occasional() {
    constexpr std::int32_t kNobody = -2, kOthers = -1;
    std::vector<std::int32_t> reader(plan_.values.size(), kNobody);  // of roots
    const auto read = [&](std::uint32_t id, std::int32_t by) {
      std::int32_t& now = reader[plan_.values[id].root];
      now = now == kNobody || now == by ? by : kOthers;
    };
    for (const auto* results : {&plan_.outputs, &plan_.metrics, &plan_.assigned}) {
      for (const std::uint32_t id : *results) read(id, kOthers);
    }
    for (std::size_t i = plan_.nodes.size(); i-- > 0;) {
      PlanNode& node = plan_.nodes[i];
      std::int32_t by = kNobody;
      for (const std::uint32_t id : node.outputs) {
        const PlanValue& value = plan_.values[id];
        if (value.storage == Storage::kGradient) {
          const auto of = std::ranges::find(data_.minimized, value.index, &MinimizeDef::group);
          read(id, of->spec.every_steps > 1 ? static_cast<std::int32_t>(of - data_.minimized.begin()) : kOthers);
        }
        const std::int32_t needs = reader[id];
        if (needs != kNobody) by = by == kNobody || by == needs ? needs : kOthers;
      }
      node.minimized = std::max(by, kOthers);
      for (const std::uint32_t id : node.inputs) read(id, node.minimized);
    }
  }

  std::int64_t local_bytes(std::uint32_t id) {
    const ValueSpec& spec = root(id).spec;
    return (local_shape(spec, batch_, rows_).elements() * element_bytes(spec.dtype, compute_) + 63) / 64 * 64;
  }

  /// Where devices wait for each other. A value that crosses stays to the end, so no device waits to overwrite one.
  /// Joint functions run in order, whichever devices they are on, because replicas meet in them.
  void order_devices() {
    if (devices_ == 1) return;
    std::vector<std::int64_t> maker(plan_.values.size(), -1);
    std::vector<std::vector<std::int64_t>> passed(static_cast<std::size_t>(devices_),
                                                  std::vector<std::int64_t>(static_cast<std::size_t>(devices_), -1));
    std::int64_t last_function = -1;
    for (std::size_t i = 0; i < plan_.nodes.size(); ++i) {
      PlanNode& node = plan_.nodes[i];
      std::vector<std::int64_t> needed;
      for (const std::uint32_t id : node.inputs) {
        const std::uint32_t from = plan_.values[id].root;
        needed.push_back(maker[from]);
        if (maker[from] >= 0 && plan_.nodes[static_cast<std::size_t>(maker[from])].device != node.device) {
          pinned_.push_back(from);
        }
      }
      if (node.joint >= 0 && data_.joints[static_cast<std::size_t>(node.joint)].forward) {
        needed.push_back(std::exchange(last_function, static_cast<std::int64_t>(i)));
      }
      std::ranges::sort(needed, std::greater());  // waiting for the last one of a device is waiting for all of them
      for (const std::int64_t at : needed) {
        if (at < 0) continue;
        PlanNode& other = plan_.nodes[static_cast<std::size_t>(at)];
        std::int64_t& before = passed[static_cast<std::size_t>(node.device)][static_cast<std::size_t>(other.device)];
        if (other.device == node.device || before >= at) continue;
        before = at;
        node.waits.push_back({other.device, static_cast<std::uint32_t>(at)});
        other.awaited = true;
      }
      for (const std::uint32_t id : node.outputs) maker[id] = static_cast<std::int64_t>(i);
    }
  }

  /// First-fit over the gaps between live values, in order of execution; an output may take over an input that dies.
  /// The device's region begins where the one before it ends.
  void place_in_arena(int device) {
    blocks_.clear();
    const std::int64_t region = plan_.arena_bytes;
    std::vector<std::size_t> last_use(plan_.values.size(), 0);
    for (std::size_t i = 0; i < plan_.nodes.size(); ++i) {
      for (const std::uint32_t id : plan_.nodes[i].inputs) last_use[plan_.values[id].root] = i;
      for (const std::uint32_t id : plan_.nodes[i].outputs) last_use[id] = std::max(last_use[id], i);
    }
    for (const std::uint32_t id : pinned_) last_use[plan_.values[id].root] = kEnd;
    const bool spread = gpu_ && arena_bytes_of_all() <= kSpreadBytes;

    for (std::size_t i = 0; i < plan_.nodes.size(); ++i) {
      const PlanNode& node = plan_.nodes[i];
      if (node.device != device) continue;
      for (std::size_t output = 0; output < node.outputs.size(); ++output) {
        const std::uint32_t id = node.outputs[output];
        if (plan_.values[id].storage != Storage::kArena) continue;
        if (spread || output != 0 || !take_over(node, id, i, last_use)) allocate(id, region);
      }
      if (spread) continue;
      for (const auto& ids : {&node.inputs, &node.outputs}) {
        for (const std::uint32_t id : *ids) {
          const std::uint32_t at = plan_.values[id].root;
          if (last_use[at] == i) blocks_.erase(at);
        }
      }
    }
  }

  std::int64_t arena_bytes_of_all() {
    std::int64_t bytes = 0;
    for (const PlanNode& node : plan_.nodes) {
      for (const std::uint32_t id : node.outputs) {
        if (plan_.values[id].storage == Storage::kArena) bytes += local_bytes(id);
      }
    }
    return bytes;
  }

  bool take_over(const PlanNode& node, std::uint32_t output, std::size_t index,
                 const std::vector<std::size_t>& last_use) {
    for (std::size_t i = 0; node.op != nullptr && i < node.inputs.size(); ++i) {
      const std::uint32_t from = plan_.values[node.inputs[i]].root;
      if ((node.op->overwrites >> i & 1U) == 0 || last_use[from] != index || !blocks_.contains(from) ||
          local_bytes(from) != local_bytes(output)) {
        continue;
      }
      plan_.values[output].offset = plan_.values[from].offset;
      blocks_.erase(from);
      blocks_.emplace(output, local_bytes(output));
      return true;
    }
    return false;
  }

  void allocate(std::uint32_t id, std::int64_t region) {
    const std::int64_t bytes = local_bytes(id);
    std::vector<std::pair<std::int64_t, std::int64_t>> taken;  // offset, bytes
    for (const auto& [value, size] : blocks_) taken.emplace_back(plan_.values[value].offset, size);
    std::ranges::sort(taken);
    std::int64_t offset = region;
    for (const auto& [at, size] : taken) {
      if (at - offset >= bytes) break;
      offset = std::max(offset, at + size);
    }
    plan_.values[id].offset = offset;
    blocks_.emplace(id, bytes);
    plan_.arena_bytes = std::max(plan_.arena_bytes, offset + bytes);
  }

  const GraphData& data_;
  const std::int64_t batch_, rows_;
  const int devices_;
  const DType compute_;
  const ComputeBy by_;
  const bool gpu_;
  Plan plan_;
  std::map<std::uint32_t, std::uint32_t> bf16_, f32_;                    // root -> its copy of the other type
  std::map<std::pair<std::uint32_t, ConvShape>, std::uint32_t> packed_;  // root, for what -> its packed copy
  std::vector<std::uint32_t> pinned_;             // read after the last node, or on another device than its maker's
  std::map<std::uint32_t, std::int64_t> blocks_;  // live arena values of the present device -> bytes
};

}  // namespace

Result<Plan> make_plan(const GraphData& data, const PlanOptions& options) { return Planner(data, options).run(); }

}  // namespace troupe::learner
