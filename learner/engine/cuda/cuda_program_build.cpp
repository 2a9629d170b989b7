// From a plan to addresses and kernels on a GPU: what cpu_build.cpp does for the processor.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include <troupe/learner/engine/cpu/gemm.hpp>
#include <troupe/learner/engine/cuda/cuda_program.hpp>
#include <troupe/learner/engine/cuda/weight_grad.hpp>

namespace troupe::learner {

namespace {

static_assert(TROUPE_CUDA_F32 == static_cast<int>(DType::kF32) && TROUPE_CUDA_BF16 == static_cast<int>(DType::kBF16) &&
              TROUPE_CUDA_I32 == static_cast<int>(DType::kI32) && TROUPE_CUDA_U8 == static_cast<int>(DType::kU8) &&
              TROUPE_CUDA_NORM_BLOCK == kNormBlock);
static_assert(static_cast<int>(ConvPass::kInputGrad) == 1 && static_cast<int>(ConvPass::kWeightGrad) == 2);

TroupeCudaShape cuda_shape(const Shape& shape) {
  TroupeCudaShape made{.rank = shape.rank(), .dims = {}};
  std::ranges::copy(shape.dims(), made.dims);
  return made;
}

/// Of all workspaces together, unless one alone needs more.
constexpr std::size_t kWorkspaceBytes = std::size_t{256} << 20, kMostWorkspaces = 8;
/// Of all parts of one weight's gradient, results and workspaces.
constexpr std::size_t kPartsBytes = std::size_t{64} << 20;

}  // namespace

class CudaProgram::Builder {
 public:
  Builder(CudaProgram& made, const GraphData& data, const Plan& plan)
      : made_(made), gpu_(*made.gpu_), api_(gpu_.api()), host_(made.host_), data_(data), plan_(plan) {}

  Status run() {
    TROUPE_TRY(gpu_.use());
    TROUPE_ASSIGN(made_.stream_, gpu::GpuStream::make(made_.gpu_));
    TROUPE_ASSIGN(made_.copy_stream_, gpu::GpuStream::make(made_.gpu_));
    TROUPE_ASSIGN(made_.copied_, gpu::GpuEvent::make(made_.gpu_));
    TROUPE_ASSIGN(made_.done_, gpu::GpuEvent::make(made_.gpu_));
    TROUPE_TRY(make_groups());
    TROUPE_TRY(make_constants());
    TROUPE_TRY(make_inputs());
    TROUPE_TRY(make_results());
    TROUPE_TRY(allocate(made_.arena_, static_cast<std::size_t>(plan_.arena_bytes), "activations"));
    for (const PlanNode& node : plan_.nodes) TROUPE_TRY(make_node(node));
    pass_joints_on();
    for (std::size_t i = 0; i < made_.nodes_.size(); ++i) {
      if (is_function(made_.nodes_[i].joint)) made_.functions_.push_back(i);
    }
    TROUPE_TRY(order());
    TROUPE_TRY(make_end_of_step());
    find_results();
    return {};
  }

 private:
  /// Slices of one block, each where every type and vector of values is aligned.
  struct Block {
    std::size_t bytes = 0;
    std::size_t add(std::size_t count) {
      const std::size_t offset = bytes;
      bytes += (count + 255) / 256 * 256;
      return offset;
    }
  };

  Status allocate(gpu::GpuMemory& memory, std::size_t bytes, std::string_view what) {
    TROUPE_ASSIGN(memory, gpu_.allocate(bytes, what));
    made_.bytes_ += bytes;
    return {};
  }
  Status allocate_pinned(gpu::GpuMemory& memory, std::size_t bytes, std::string_view what) {
    TROUPE_ASSIGN(memory, gpu_.allocate_pinned(bytes, what));
    if (bytes > 0) std::fill_n(memory.get(), bytes, std::byte{0});
    return {};
  }

  Status make_groups() {
    if (host_.minimized.size() > TROUPE_CUDA_MAX_MINIMIZED) {
      return Error{Code::kInvalidArgument,
                   fmt::format("{}: {} groups are minimized, expected at most {}", gpu_.name(), host_.minimized.size(),
                               static_cast<int>(TROUPE_CUDA_MAX_MINIMIZED))};
    }
    const auto make = [&](const ParamBuffer& params, DeviceGroup& group) -> Status {
      const auto bytes = static_cast<std::size_t>(params.layout().elements) * sizeof(float);
      return allocate(group.block, bytes * (1 + params.slots().size()), params.layout().group);
    };
    made_.groups_.resize(host_.groups.size());
    for (std::size_t g = 0; g < host_.groups.size(); ++g) {
      const ParamBuffer& params = *host_.groups[g].params;
      TROUPE_TRY(make(params, made_.groups_[g]));
      const auto elements = static_cast<std::size_t>(params.layout().elements);
      if (bf16()) {
        TROUPE_TRY(allocate(made_.groups_[g].shadow, elements * sizeof(std::uint16_t), "bfloat16 parameters"));
      }
      if (std::ranges::count(host_.minimized, g, &Minimized::group) > 0) {
        TROUPE_TRY(allocate(made_.groups_[g].gradient, elements * sizeof(float), "gradients"));
        TROUPE_TRY(zero(made_.groups_[g].gradient));  // padding stays so
      }
    }
    return make(*host_.state.params, made_.state_);
  }

  Status zero(const gpu::GpuMemory& memory) {
    return memory.bytes() == 0 ? Status{}
                               : gpu_.check(api_.fill(memory.get(), 0, memory.bytes(), made_.stream_), "clearing");
  }

  Status make_constants() {
    for (const std::vector<float>& values : data_.constants) {
      gpu::GpuMemory& constant = made_.constants_.emplace_back();
      TROUPE_TRY(allocate(constant, values.size() * sizeof(float), "constants"));
      if (values.empty()) continue;
      TROUPE_TRY(gpu_.check(api_.copy(constant.get(), values.data(), constant.bytes(), made_.stream_), "constants"));
    }
    return {};
  }

  Status make_inputs() {
    for (const PlanNode& node : plan_.nodes) {
      for (const std::uint32_t id : node.inputs) {
        const PlanValue& root = plan_.values[plan_.values[id].root];
        if (root.storage == Storage::kInput) host_.inputs[static_cast<std::size_t>(root.index)].used = true;
      }
    }
    Block block;
    for (const BoundInput& input : host_.inputs) {
      const auto bytes = static_cast<std::size_t>(input.spec.shape.elements()) * dtype_bytes(input.spec.dtype);
      made_.input_slices_.push_back(input.used ? Slice{block.add(bytes), bytes} : Slice{});
    }
    TROUPE_TRY(allocate(made_.inputs_, block.bytes, "a batch"));
    return allocate_pinned(made_.host_inputs_, block.bytes, "a batch");
  }

  /// How many steps of one launch there may be, when each has so many bytes of results.
  int steps_per_launch(std::size_t result_bytes) const {
    const auto on_host = [this](const PlanNode& node) { return is_function(node.joint); };
    const auto differs = [](const Minimized& m) { return m.spec.reduce != nullptr || m.spec.every_steps != 1; };
    if (host_.accumulates() || std::ranges::any_of(plan_.nodes, on_host) ||
        std::ranges::any_of(host_.minimized, differs)) {
      return 1;
    }
    const auto bytes = static_cast<std::int64_t>(std::max(made_.inputs_.bytes(), result_bytes));
    return static_cast<int>(std::clamp<std::int64_t>(kLaunchBytes / bytes, 1, kStepsPerLaunch));
  }

  /// Where outputs and metrics end, behind what a step's end reads. Those that lie in the arena, and so to its end, are
  /// written there at once.
  Status make_results() {
    Block block;
    block.add(sizeof(TroupeCudaControl));
    const auto add = [&](std::uint32_t id, std::int64_t elements) {
      const std::uint32_t root = plan_.values[id].root;
      const Storage storage = plan_.values[root].storage;
      const auto bytes = static_cast<std::size_t>(elements) * sizeof(float);
      const bool direct = storage == Storage::kArena || storage == Storage::kOutput;
      if (const auto found = results_.find(root); found != results_.end()) return Slice{found->second, bytes};
      const Slice slice{block.add(bytes), bytes};
      if (direct)
        results_[root] = slice.offset;
      else
        gathered_.emplace_back(slice, id);
      return slice;
    };
    for (std::size_t i = 0; i < plan_.outputs.size(); ++i) {
      made_.output_slices_.push_back(add(plan_.outputs[i], host_.outputs[i].spec.shape.elements()));
    }
    for (const std::uint32_t id : plan_.metrics) made_.metric_slices_.push_back(add(id, 1));
    made_.result_bytes_ = block.bytes;
    made_.steps_per_launch_ = steps_per_launch(block.bytes);
    Block before;
    before.add(made_.due_at(host_.groups.size()));
    made_.results_at_ = before.bytes;
    const std::size_t rows = block.bytes * static_cast<std::size_t>(made_.steps_per_launch_);
    TROUPE_TRY(allocate(made_.end_, made_.results_at_ + block.bytes, "the end of a step"));
    TROUPE_TRY(zero(made_.end_));
    TROUPE_TRY(allocate_pinned(made_.host_rules_, made_.results_at_ + sizeof(TroupeCudaControl), "the end of a step"));
    TROUPE_TRY(allocate(made_.rows_, made_.steps_per_launch_ > 1 ? rows : 0, "results"));
    return allocate_pinned(made_.host_results_, rows, "results");
  }

  Status make_node(const PlanNode& from) {
    Node node{.name = from.op != nullptr ? from.op->name : "joint", .joint = from.joint, .minimized = from.minimized};
    TroupeCudaCall& call = node.call;
    if (from.inputs.size() > TROUPE_CUDA_MAX_OPERANDS || from.outputs.size() > TROUPE_CUDA_MAX_OPERANDS) {
      return Error{Code::kUnavailable,
                   fmt::format("{}: {} has {} inputs and {} outputs, expected at most {}", gpu_.name(), node.name,
                               from.inputs.size(), from.outputs.size(), static_cast<int>(TROUPE_CUDA_MAX_OPERANDS))};
    }
    for (const std::uint32_t id : from.inputs) call.in[call.inputs++] = operand(id);
    for (const std::uint32_t id : from.outputs) call.out[call.outputs++] = operand(id);
    std::ranges::copy(from.attr.real, call.real);
    std::ranges::copy(from.attr.integer, call.integer);
    call.shape = cuda_shape(from.attr.shape);
    call.valid = {host_.batch, host_.batch};
    if (from.op == nullptr) {
      // run by the host, or pass_joints_on()
    } else if (from.op->conv != nullptr && !is_product(from.conv)) {
      const std::int64_t parts = bf16() ? batch_parts(from.conv) : 1;
      if (parts > 1) return make_parts(from, std::move(node), parts);
      TROUPE_TRY(make_conv(from, from.conv, call));
    } else {
      const ConvShape& conv = from.conv;
      const bool is_conv = from.op->conv != nullptr;  // and a product, for which the plug-in has the kernel
      const std::string name(is_conv ? "matmul" : from.op->name);
      const std::string_view library = is_conv ? std::string_view() : from.op->cuda;
      if (from.op->gemm != nullptr) TROUPE_TRY(make_product(from, call));
      if (is_conv) {
        const std::int64_t pixels = conv.batch * conv.height * conv.width;
        TROUPE_TRY(make_product(from, {.m = conv.in, .n = conv.out, .k = pixels, .transpose_a = true}, call));
      }
      TROUPE_ASSIGN(node.kernel, gpu_.kernel(name, library));
      if (node.kernel == nullptr) {
        return Error{Code::kUnavailable,
                     fmt::format("{}: {} has no kernel for the operation {}: give its OpDef a library that has (cuda), "
                                 "or run on cpu",
                                 gpu_.name(), library.empty() ? "the plug-in" : library, name)};
      }
      node.workspace_bytes = api_.workspace(node.kernel, &call);
    }
    if (call.conv != nullptr) node.workspace_bytes = made_.cudnn_->workspace(call.conv);
    if (node.kernel != nullptr && api_.can_chain(node.kernel, &call) != 0) node.chain.push_back({node.kernel, call});
    if (continues_chain(node)) return {};
    if (sums_apart(from, call)) {
      Node sums = node;
      sums.call.out[0].data = nullptr;
      for (int i = 1; i < call.outputs; ++i) node.call.out[i].data = nullptr;
      made_.nodes_.push_back(std::move(sums));
    }
    made_.nodes_.push_back(std::move(node));
    return {};
  }

  /// Whether gradients of biases and gains, sums over rows for which only the optimiser waits, are a node beside that
  /// of the gradient which others wait for. Of many rows it is cheaper to read them once.
  static bool sums_apart(const PlanNode& from, const TroupeCudaCall& call) {
    constexpr std::int64_t kMostRows = 1024;
    if (from.op == nullptr || (from.op->name != "bias_activation_grad" && from.op->name != "layer_norm_grad"))
      return false;
    const NodeMemory memory = memory_of(call);
    const bool in_place = std::ranges::any_of(
        memory.reads, [&](const MemoryRange& read) { return read.overlaps(memory.writes.front()); });
    return call.in[0].rows <= kMostRows && call.out[0].data != nullptr && call.out[1].data != nullptr && !in_place;
  }

  /// Makes the node a link of the last one, where the two can be one kernel.
  bool continues_chain(const Node& node) {
    if (node.chain.empty() || made_.nodes_.empty()) return false;
    Node& last = made_.nodes_.back();
    const auto fits = [&](const ChainLink& link) {
      const auto count = [](const TroupeCudaCall& of) { return of.out[0].rows * of.out[0].cols; };
      return count(link.call) == count(node.call) && in_step(memory_of(link.call), memory_of(node.call));
    };
    if (last.chain.empty() || last.chain.size() >= TROUPE_CUDA_MAX_CHAIN || last.minimized != node.minimized ||
        !std::ranges::all_of(last.chain, fits)) {
      return false;
    }
    last.chain.push_back(node.chain.front());
    return true;
  }

  static NodeMemory memory_of(const TroupeCudaCall& call) {
    NodeMemory made;
    for (int i = 0; i < call.inputs; ++i) made.reads.push_back(range_of(call.in[i]));
    for (int i = 0; i < call.outputs; ++i) made.writes.push_back(range_of(call.out[i]));
    return made;
  }

  bool bf16() const { return host_.options.compute == DType::kBF16; }
  bool measured() const { return host_.options.plans == PlanChoice::kMeasured; }

  Status make_product(const PlanNode& node, TroupeCudaCall& call) {
    std::vector<Shape> shapes;
    for (const std::uint32_t id : node.inputs) shapes.push_back(plan_.values[id].spec.shape);
    return make_product(node, node.op->gemm(shapes, node.attr), call);
  }

  Status make_product(const PlanNode& node, const GemmShape& gemm, TroupeCudaCall& call) {
    const TroupeCudaProductShape shape{.m = gemm.m,
                                       .n = gemm.n,
                                       .k = gemm.k,
                                       .transpose_a = gemm.transpose_a,
                                       .transpose_b = gemm.transpose_b,
                                       .bf16 = call.in[0].dtype == TROUPE_CUDA_BF16,
                                       .tf32 = host_.options.tf32,
                                       .bias = call.inputs > 2,
                                       .activation = call.inputs > 2 ? static_cast<std::int32_t>(call.integer[0]) : 0,
                                       .measured = measured(),
                                       .tiling = 0};
    TroupeCudaProduct* product = nullptr;
    TROUPE_TRY(gpu_.check(api_.make_product(&shape, &product), node.op->name));
    made_.products_.push_back(product);
    call.product = product;
    return {};
  }

  /// Nodes for the parts of the batch, side by side, and one that adds up what they put out.
  Status make_parts(const PlanNode& from, Node node, std::int64_t parts) {
    ConvShape part = from.conv;
    part.batch /= parts;
    TROUPE_TRY(make_conv(from, part, node.call));
    const TroupeCudaOperand result = node.call.out[0];
    const std::size_t result_bytes = range_of(result).bytes;
    Block block;
    for (std::int64_t p = 0; p < parts; ++p) block.add(made_.cudnn_->workspace(node.call.conv));
    const std::size_t results_at = block.add(result_bytes * static_cast<std::size_t>(parts));
    if (block.bytes > kPartsBytes && parts > 2) return make_parts(from, std::move(node), parts / 2);
    gpu::GpuMemory& memory = made_.parts_.emplace_back();
    TROUPE_TRY(allocate(memory, block.bytes, "parts of a weight's gradient"));
    for (TroupeCudaOperand* const operand : {&node.call.in[0], &node.call.in[1]}) {
      operand->rows /= parts;
      operand->shape.dims[0] /= parts;
    }
    for (std::int64_t p = 0; p < parts; ++p) {
      Node& made = made_.nodes_.emplace_back(node);
      const auto at = static_cast<std::size_t>(p);
      for (TroupeCudaOperand* const operand : {&made.call.in[0], &made.call.in[1]}) {
        operand->data = static_cast<std::byte*>(operand->data) + at * range_of(*operand).bytes;
      }
      made.call.out[0].data = memory.get() + results_at + at * result_bytes;
      made.call.workspace = memory.get() + at * (results_at / static_cast<std::size_t>(parts));
    }
    Node sum{.name = node.name, .kernel = api_.find_kernel("sum_to"), .minimized = node.minimized};
    sum.call = {.inputs = 1, .outputs = 1, .valid = node.call.valid};
    sum.call.in[0] = sum.call.out[0] = result;
    TroupeCudaOperand& all = sum.call.in[0];
    all.data = memory.get() + results_at;
    all.rows *= parts;
    std::copy_backward(all.shape.dims, all.shape.dims + all.shape.rank, all.shape.dims + all.shape.rank + 1);
    all.shape.dims[0] = parts;
    ++all.shape.rank;
    made_.nodes_.push_back(std::move(sum));
    return {};
  }

  Status make_conv(const PlanNode& node, const ConvShape& conv, TroupeCudaCall& call) {
    if (made_.cudnn_ == nullptr) {
      TROUPE_ASSIGN(made_.cudnn_, gpu_.cudnn());
    }
    const TroupeCudaConvShape shape{.pass = static_cast<std::int32_t>(conv.pass),
                                    .batch = conv.batch,
                                    .height = conv.height,
                                    .width = conv.width,
                                    .in = conv.in,
                                    .kernel_h = conv.kernel_h,
                                    .kernel_w = conv.kernel_w,
                                    .out = conv.out,
                                    .stride = conv.stride,
                                    .padding = conv.padding,
                                    .bias = conv.bias,
                                    .activation = static_cast<std::int32_t>(conv.activation),
                                    .bf16 = bf16(),
                                    .tf32 = host_.options.tf32,
                                    .measured = measured()};
    TroupeCudaConv* made = nullptr;
    TROUPE_TRY(gpu_.check(made_.cudnn_->make_conv(&shape, &made), node.op->name, made_.cudnn_->library_error));
    made_.convs_.push_back(made);
    call.conv = made;
    return {};
  }

  TroupeCudaOperand operand(std::uint32_t id) {
    const ValueSpec& spec = plan_.values[id].spec;
    TroupeCudaOperand made{.data = address(id),
                           .rows = 0,
                           .cols = 0,
                           .dtype = static_cast<std::int32_t>(spec.dtype),
                           .shape = cuda_shape(spec.shape)};
    fold(spec, spec.shape, &made.rows, &made.cols);
    return made;
  }

  void* address(std::uint32_t id) {
    const std::uint32_t root = plan_.values[id].root;
    const PlanValue& value = plan_.values[root];
    if (const auto found = results_.find(root); found != results_.end()) return made_.results() + found->second;
    const auto i = static_cast<std::size_t>(value.index);
    switch (value.storage) {
      case Storage::kNone:
      case Storage::kOutput:  // all are among the results
        return nullptr;
      case Storage::kInput:
        return made_.inputs_.get() + made_.input_slices_[i].offset;
      case Storage::kArena:
        return made_.arena_.get() + value.offset;
      case Storage::kConstant:
        return made_.constants_[i].get();
      case Storage::kParam:
        return made_.groups_[i].block.as<float>() + value.offset;
      case Storage::kShadow:
        return made_.groups_[i].shadow.as<std::uint16_t>() + value.offset;
      case Storage::kState:
        return made_.state_.block.as<float>() + value.offset;
      case Storage::kGradient:
        return made_.groups_[i].gradient.as<float>() + value.offset;
    }
    return nullptr;
  }

  static MemoryRange range_of(const TroupeCudaOperand& operand) {
    const auto elements = static_cast<std::size_t>(operand.rows * operand.cols);
    return {static_cast<const std::byte*>(operand.data),
            operand.data == nullptr ? 0 : elements * dtype_bytes(static_cast<DType>(operand.dtype))};
  }

  /// Whether the host runs it.
  bool is_function(int joint) const {
    return joint >= 0 && static_cast<bool>(data_.joints[static_cast<std::size_t>(joint)].forward);
  }

  /// Of one stripe the other joints are copies: whoever reads one reads what it was made of, and the copy is left out,
  /// where nobody else writes either of them as long as it is read.
  void pass_joints_on() {
    std::vector<Node>& nodes = made_.nodes_;
    for (std::size_t j = 0; j < nodes.size(); ++j) {
      if (nodes[j].joint < 0 || is_function(nodes[j].joint)) continue;
      const TroupeCudaOperand in = nodes[j].call.in[0], out = nodes[j].call.out[0];
      if (is_read_at_the_end(range_of(out))) continue;
      std::vector<TroupeCudaOperand*> readers;
      const auto collect = [&](TroupeCudaCall& call) {  // false: not so simple
        for (int i = 0; i < call.inputs; ++i) {
          if (!range_of(call.in[i]).overlaps(range_of(out))) continue;
          if (call.in[i].data != out.data) return false;
          readers.push_back(&call.in[i]);
        }
        return std::ranges::none_of(memory_of(call).writes, [&](const MemoryRange& each) {
          return each.overlaps(range_of(in)) || each.overlaps(range_of(out));
        });
      };
      const bool simple = std::all_of(nodes.begin() + static_cast<std::ptrdiff_t>(j) + 1, nodes.end(), [&](Node& node) {
        return collect(node.call) &&
               std::ranges::all_of(node.chain, [&](ChainLink& link) { return collect(link.call); });
      });
      if (!simple) continue;
      for (TroupeCudaOperand* const reader : readers) reader->data = in.data;
      nodes.erase(nodes.begin() + static_cast<std::ptrdiff_t>(j--));
    }
  }

  /// As an output, a metric or a state's next value.
  bool is_read_at_the_end(const MemoryRange& range) {
    const auto lies_in = [&](std::uint32_t id) {
      const auto bytes = static_cast<std::size_t>(plan_.values[id].spec.shape.elements()) * sizeof(float);
      return range.overlaps({static_cast<const std::byte*>(address(id)), bytes});
    };
    return std::ranges::any_of(plan_.outputs, lies_in) || std::ranges::any_of(plan_.metrics, lies_in) ||
           std::ranges::any_of(plan_.assigned, lies_in);
  }

  /// Branches that run at the same time need a workspace each, of which there are as many as a bounded memory has.
  Status order() {
    std::vector<NodeMemory> memory;
    std::size_t largest = 0;
    for (const Node& node : made_.nodes_) {
      NodeMemory& of = memory.emplace_back(memory_of(node.call));
      for (const ChainLink& link : node.chain) {
        const NodeMemory more = memory_of(link.call);
        of.reads.insert(of.reads.end(), more.reads.begin(), more.reads.end());
        of.writes.insert(of.writes.end(), more.writes.begin(), more.writes.end());
      }
      of.workspace = node.workspace_bytes > 0;  // else it needs none, or has its own
      largest = std::max(largest, node.workspace_bytes);
    }
    Block block;
    block.add(std::max<std::size_t>(largest, 1));
    std::vector<NodeOrder> orders =
        order_nodes(memory, std::clamp<std::size_t>(kWorkspaceBytes / block.bytes, 1, kMostWorkspaces));
    std::size_t used = 0;
    for (std::size_t i = 0; i < orders.size(); ++i) {
      if (memory[i].workspace) used = std::max(used, orders[i].workspace + 1);
    }
    TROUPE_TRY(allocate(made_.workspace_, used * block.bytes, "workspaces"));
    for (std::size_t i = 0; i < orders.size(); ++i) {
      Node& node = made_.nodes_[i];
      node.after = std::move(orders[i].after);
      if (memory[i].workspace) node.call.workspace = made_.workspace_.get() + orders[i].workspace * block.bytes;
    }
    return {};
  }

  Status make_end_of_step() {
    std::size_t blocks = 0;
    for (const Minimized& m : host_.minimized) blocks += m.blocks.size();
    TROUPE_TRY(allocate(made_.squares_, blocks * sizeof(double), "the end of a step"));
    double* next = made_.squares_.as<double>();
    for (const Minimized& m : host_.minimized) {
      made_.squares_of_.push_back(next);
      next += m.blocks.size();
    }
    std::int64_t largest = 0;
    for (const Minimized& m : host_.minimized) {
      if (!m.lars) continue;
      for (const UpdateStretch& variable : m.lars->stretches()) {
        if (variable.decays) largest = std::max(largest, (variable.end - variable.begin + kNormBlock - 1) / kNormBlock);
      }
    }
    TROUPE_TRY(allocate(made_.lars_squares_, static_cast<std::size_t>(largest) * 2 * sizeof(double), "LARS's norms"));
    TROUPE_TRY(allocate(made_.lars_rate_, largest > 0 ? sizeof(float) : 0, "LARS's rate"));
    for (const std::uint32_t id : plan_.assigned) made_.assigned_from_.push_back(static_cast<float*>(address(id)));
    made_.gradient_fetched_.assign(host_.minimized.size(), false);
    return {};
  }

  void find_results() {
    for (const auto& [slice, id] : gathered_) made_.gathered_.emplace_back(slice, address(id));
    // What is gathered may be a parameter or a state, and a state may take an input's value.
    made_.exchanges_apart_ = gathered_.empty() && std::ranges::none_of(plan_.assigned, [this](std::uint32_t id) {
                               return plan_.values[plan_.values[id].root].storage == Storage::kInput;
                             });
  }

  CudaProgram& made_;
  const gpu::Gpu& gpu_;
  const TroupeCudaApi& api_;
  Host& host_;
  const GraphData& data_;
  const Plan& plan_;
  std::unordered_map<std::uint32_t, std::size_t> results_;  ///< where in made_.results() a value lies
  std::vector<std::pair<Slice, std::uint32_t>> gathered_;
};

Result<std::unique_ptr<CudaProgram>> CudaProgram::make(std::shared_ptr<const gpu::Gpu> gpu, const GraphData& data,
                                                       const Plan& plan, Host& host) {
  std::unique_ptr<CudaProgram> made(new CudaProgram(std::move(gpu), host));
  TROUPE_TRY(Builder(*made, data, plan).run());
  return made;
}

namespace {

class CudaEngine final : public Engine {
 public:
  Status complete(const GraphData&, std::int64_t, CompileOptions* options) const override {
    return complete_for_one_device(options);
  }
  Result<std::unique_ptr<Executable>> compile(const GraphData& data, Host& host) const override {
    PlanOptions of_plan = plan_options(host);
    of_plan.gpu = true;
    TROUPE_ASSIGN(const Plan plan, make_plan(data, of_plan));
    TROUPE_ASSIGN(auto gpu, gpu::Gpu::open(host.options.device.index));
    TROUPE_ASSIGN(auto made, CudaProgram::make(std::move(gpu), data, plan, host));
    return std::unique_ptr<Executable>(std::move(made));
  }
};

}  // namespace

const Engine& cuda_engine() {
  static const CudaEngine engine;
  return engine;
}

}  // namespace troupe::learner
