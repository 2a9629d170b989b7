// Resolves a plan to pointers: buffers are allocated, kernels chosen and matrix products prepared, once.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <thread>

#include <troupe/collectives/shareable_memory.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/learner/engine/cuda/cuda_program.hpp>
#include <troupe/learner/engine/fastest.hpp>
#include <troupe/learner/engine/initial_values.hpp>
#include <troupe/learner/engine/instruction_set.hpp>
#include <troupe/learner/engine/kept_length.hpp>
#include <troupe/learner/engine/program_impl.hpp>
#include <troupe/learner/ops/internal.hpp>

namespace troupe::learner {

namespace {

void initialise(ParamBuffer& buffer, const GroupDef& def, std::uint64_t seed) {
  for (std::size_t i = 0; i < def.inits.size(); ++i) {
    const ParamEntry& entry = buffer.layout().entries[i];
    initialise(buffer.tensor(entry), entry.shape, def.inits[i], derive_seed(seed, def.layout.entries[i].name, 0));
  }
}

class Compiler {
 public:
  Compiler(const Graph& graph, const CompileOptions& options)
      : data_(GraphAccess::data(graph)), batch_(graph.batch()), options_(options) {}

  Status run(Program::Impl& impl) {
    impl_ = &impl;
    impl.options = options_;
    impl.batch = batch_;
    impl.table = options_.compute == DType::kF64 ? &kernels_f64() : &kernels_f32();
    TROUPE_ASSIGN(plan_, make_plan(data_, {.batch = batch_,
                                           .rows = (batch_ + options_.stripes - 1) / options_.stripes,
                                           .devices = impl.devices,
                                           .compute = options_.compute,
                                           .by = {options_.gemm, options_.plans},
                                           .gpu = options_.device.is_gpu()}));
    make_parameters();
    make_values();
    if (options_.device.is_gpu()) return make_on_gpu();
    for (std::size_t s = 0; s < impl.stripes.size(); ++s) TROUPE_TRY(make_stripe(s));
    make_results();
    make_exchange();
    const std::vector<Call>& calls = impl.stripes[0].calls;
    for (std::size_t i = 0; i < calls.size() && impl.stripes.size() > 1; ++i) {
      if (calls[i].function == nullptr) impl.stops.push_back(i);
    }
    impl.stops.push_back(calls.size());
    return {};
  }

 private:
  Status make_on_gpu() {
    Stripe& stripe = impl_->stripes[0];
    stripe.rows = batch_;
    make_gradients(stripe);
    for (const auto& [state, value] : data_.assigns) {
      const PlanValue& to = plan_.values[state];
      impl_->assigns.push_back({nullptr, to.offset, to.spec.shape.elements()});
    }
    make_minimized();
    TROUPE_ASSIGN(auto gpu, gpu::Gpu::open(options_.device.cuda));
    TROUPE_ASSIGN(impl_->cuda, CudaProgram::make(std::move(gpu), data_, plan_, *impl_));
    return {};
  }

  bool accumulates() const { return options_.accumulate > 1 && options_.update; }
  std::int64_t bytes(DType dtype) const { return element_bytes(dtype, options_.compute); }

  void make_parameters() {
    for (const GroupDef& def : data_.groups) {
      Group& group = impl_->groups.emplace_back();
      const GroupDef& online = def.online < 0 ? def : data_.groups[static_cast<std::size_t>(def.online)];
      const auto minimized = std::ranges::find(data_.minimized, static_cast<std::int32_t>(&def - data_.groups.data()),
                                               &MinimizeDef::group);
      ParamLayout layout = online.layout;
      layout.group = def.name;
      for (ParamEntry& entry : layout.entries) entry.name.replace(0, online.name.size(), def.name);
      std::vector<std::string> slots;
      if (minimized != data_.minimized.end() && options_.update) slots = slot_names(minimized->spec);
      if (minimized != data_.minimized.end() && accumulates()) slots.push_back("accumulated");
      group.params = std::make_unique<ParamBuffer>(std::move(layout), std::move(slots));
      if (def.online < 0) {
        initialise(*group.params, def, options_.seed);
        KeptLengths(def.layout).restore(group.params->values().data(), nullptr);
      }
      group.online = def.online;
      group.every_steps = def.every_steps;
      group.decay = def.decay;
      const auto elements = static_cast<std::size_t>(online.layout.elements);
      if (options_.compute == DType::kBF16) group.shadow = make_aligned<std::uint16_t>(elements);
      if (options_.compute == DType::kF64) group.values_f64 = make_aligned<double>(elements);
    }
    for (const Group& group : impl_->groups) {  // who follows another one starts equal
      if (group.online < 0) continue;
      const ParamBuffer& online = *impl_->groups[static_cast<std::size_t>(group.online)].params;
      std::ranges::copy(online.values(), group.params->values().begin());
    }
    if (accumulates()) {
      ParamLayout layout{.group = "accumulation"};
      layout.add("accumulation/runs", Shape{});
      layout.add("accumulation/rows", Shape{});
      impl_->accumulation = std::make_unique<ParamBuffer>(std::move(layout));
    }
    impl_->state.params = std::make_unique<ParamBuffer>(data_.state.layout);
    initialise(*impl_->state.params, data_.state, options_.seed);
    if (options_.compute == DType::kF64) {
      impl_->state.values_f64 = make_aligned<double>(static_cast<std::size_t>(data_.state.layout.elements));
    }
  }

  void make_values() {
    for (const InputDef& def : data_.inputs) {
      BoundInput& input = impl_->inputs.emplace_back();
      input.name = def.name;
      input.spec = data_.values[def.value].spec;
      if (options_.compute == DType::kF64 && input.spec.dtype == DType::kF32) {
        input.staging = make_aligned<std::byte>(static_cast<std::size_t>(input.spec.shape.elements()) * 8);
      }
    }
    for (const std::vector<float>& values : data_.constants) {
      impl_->constants.push_back(make_aligned<std::byte>(values.size() * static_cast<std::size_t>(bytes(DType::kF32))));
      std::byte* const to = impl_->constants.back().get();
      if (options_.compute == DType::kF64) {
        std::ranges::copy(values, reinterpret_cast<double*>(to));
      } else {
        std::ranges::copy(values, reinterpret_cast<float*>(to));
      }
    }
    for (std::size_t i = 0; i < data_.outputs.size(); ++i) {
      OutputBuffer& output = impl_->outputs.emplace_back();
      output.name = data_.outputs[i].name;
      output.spec = data_.values[data_.outputs[i].value].spec;
      output.data = make_memory(output.spec.shape.elements() * bytes(output.spec.dtype), !data_.joints.empty());
    }
    for (const NamedValue& metric : data_.metrics) {
      impl_->metric_names.push_back(metric.name);
      impl_->metrics.push_back({data_.values[metric.value].spec.place, {}});
    }
    impl_->metric_values.resize(data_.metrics.size());
    impl_->joints.resize(data_.joints.size());
    for (std::size_t i = 0; i < data_.joints.size(); ++i) impl_->joints[i].joint = data_.joints[i];
  }

  /// Memory for what this replica's joints or gradients are made of; those that others reduce with theirs can be
  /// reached by the group's other processes.
  static AlignedArray<std::byte> make_memory(std::int64_t bytes, bool others_reduce) {
    const auto size = static_cast<std::size_t>(bytes);
    return others_reduce && size > 0 ? collectives::make_shareable(size) : make_aligned<std::byte>(size);
  }

  void make_gradients(Stripe& stripe) {
    for (std::size_t g = 0; g < data_.groups.size(); ++g) {
      const auto minimized = std::ranges::find(data_.minimized, static_cast<std::int32_t>(g), &MinimizeDef::group);
      const bool has_gradient = minimized != data_.minimized.end();
      const bool is_first = &stripe == impl_->stripes.data();  // whose gradient becomes the sum of all stripes'
      stripe.gradients.push_back(make_memory(has_gradient ? data_.groups[g].layout.elements * bytes(DType::kF32) : 0,
                                             has_gradient && minimized->spec.reduce && is_first));
    }
  }

  Status make_stripe(std::size_t index) {
    Stripe& stripe = impl_->stripes[index];
    const auto count = static_cast<std::int64_t>(impl_->stripes.size()), s = static_cast<std::int64_t>(index);
    stripe.rows = batch_ / count + (s < batch_ % count ? 1 : 0);
    stripe.first_row = s * (batch_ / count) + std::min(s, batch_ % count);
    stripe.arena = make_memory(plan_.arena_bytes, !data_.joints.empty());
    impl_->arena_bytes += static_cast<std::size_t>(plan_.arena_bytes);
    make_gradients(stripe);
    for (const PlanValue& value : plan_.values) {
      if (value.spec.place == Place::kRows && value.spec.shape[0] * stripe.rows % batch_ != 0) {
        return Error{
            Code::kInvalidArgument,
            fmt::format("compile: rows of {} cannot be cut evenly for a stripe of {} of {} rows; choose another "
                        "number of stripes",
                        value.spec.shape.to_string(), stripe.rows, batch_)};
      }
      stripe.shapes.push_back(local_shape(value.spec, batch_, stripe.rows));
    }

    std::size_t operands = 0;
    for (const PlanNode& node : plan_.nodes) operands += node.inputs.size() + node.outputs.size();
    stripe.operands.reserve(operands);  // calls keep pointers into these
    stripe.attrs.reserve(plan_.nodes.size());
    stripe.calls.reserve(plan_.nodes.size());
    for (const PlanNode& node : plan_.nodes) {
      TROUPE_TRY(make_call(index, node));
      Call& call = stripe.calls.back();
      call.device = node.device;
      call.waits = node.waits;
      call.awaited = node.awaited;
      call.minimized = node.minimized;
    }
    // A device's calls follow one another, so one workspace serves them all.
    for (int device = 0; device < impl_->devices; ++device) {
      std::size_t most = 0;
      for (const Call& call : stripe.calls) {
        if (call.device != device) continue;
        if (call.args.conv != nullptr) most = std::max(most, call.args.conv->workspace_bytes());
        if (call.args.gemm != nullptr) most = std::max(most, call.args.gemm->workspace_bytes());
      }
      stripe.workspaces.push_back(make_aligned<std::byte>(most));
      impl_->arena_bytes += most;
      for (Call& call : stripe.calls) {
        if (call.device == device) call.args.workspace = stripe.workspaces.back().get();
      }
    }
    return {};
  }

  Status make_call(std::size_t index, const PlanNode& node) {
    Stripe& stripe = impl_->stripes[index];
    if (node.op == nullptr) {
      JointCall& joint = impl_->joints[static_cast<std::size_t>(node.joint)];
      joint.input = plan_.values[node.inputs[0]].spec;
      joint.output = plan_.values[node.outputs[0]].spec;
      const std::size_t input = add_operand(index, node.inputs[0]), output = add_operand(index, node.outputs[0]);
      joint.from.push_back(&stripe.operands[input].data);
      joint.to.push_back(stripe.operands[output].data);
      joint.in_elements.push_back(stripe.operands[input].elements());
      joint.out_elements.push_back(stripe.operands[output].elements());
      const auto whole = [&](const ValueSpec& spec) {
        return make_memory(spec.shape.elements() * bytes(DType::kF32), true);
      };
      if (index == 1 && joint.input.place != Place::kReplicated && joint.joint.forward) {
        joint.whole_in = whole(joint.input);
      }
      if (index == 1 && joint.output.place == Place::kRows && joint.joint.forward)
        joint.whole_out = whole(joint.output);
      stripe.calls.push_back({.joint = node.joint, .name = "joint"});
      return {};
    }
    stripe.attrs.push_back(node.attr);
    const auto is_bf16 = [&](std::uint32_t id) { return plan_.values[id].spec.dtype == DType::kBF16; };
    const bool narrow = node.op->bf16_kernel != nullptr &&
                        (std::ranges::any_of(node.inputs, is_bf16) || std::ranges::any_of(node.outputs, is_bf16));
    Call call{.function = (narrow ? node.op->bf16_kernel : node.op->kernel)(*impl_->table), .name = node.op->name};
    call.args.attr = &stripe.attrs.back();
    call.args.stripe = static_cast<int>(index);
    call.args.stripes = static_cast<int>(impl_->stripes.size());
    call.args.valid = &stripe.valid;
    const std::size_t first = stripe.operands.size();
    for (const std::uint32_t id : node.inputs) add_operand(index, id);
    for (const std::uint32_t id : node.outputs) add_operand(index, id);
    call.args.in = stripe.operands.data() + first;
    call.args.out = call.args.in + node.inputs.size();
    const ComputeBy by{options_.gemm, options_.plans};
    if (node.op->gemm != nullptr) {
      std::vector<Shape> shapes;
      for (const std::uint32_t id : node.inputs) shapes.push_back(stripe.shapes[id]);
      const DType operand = plan_.values[plan_.values[node.inputs[0]].root].spec.dtype;
      const DType dtype = operand == DType::kBF16 ? DType::kBF16 : impl_->table->dtype;
      TROUPE_ASSIGN(auto gemm, make_gemm(by, node.op->gemm(shapes, node.attr), dtype));
      stripe.gemms.push_back(std::move(gemm));
      call.args.gemm = stripe.gemms.back().get();
    }
    if (node.conv.batch > 0) {
      const bool packs = node.op == &pack_weight_op();
      ConvShape shape = node.conv;
      if (!packs) shape.batch = stripe.shapes[node.inputs[0]][0];
      TROUPE_ASSIGN(auto conv, packs ? make_pack(by, shape, options_.compute)
                                     : make_convolution(by, shape, node.conv.batch, options_.compute));
      stripe.convs.push_back(std::move(conv));
      call.args.conv = stripe.convs.back().get();
    }
    if (call.function == nullptr) {
      return Error{Code::kUnavailable,
                   fmt::format("compile: {} has no kernel for {}", node.op->name, troupe::to_string(options_.compute))};
    }
    stripe.calls.push_back(call);
    return {};
  }

  std::size_t add_operand(std::size_t index, std::uint32_t id) {
    Stripe& stripe = impl_->stripes[index];
    Operand operand{.data = address(index, id), .shape = &stripe.shapes[id]};
    fold(plan_.values[id].spec, stripe.shapes[id], &operand.rows, &operand.cols);
    const PlanValue& root = plan_.values[plan_.values[id].root];
    if (root.storage == Storage::kInput) {
      BoundInput& input = impl_->inputs[static_cast<std::size_t>(root.index)];
      input.used = true;
      input.operands.emplace_back(index, stripe.operands.size());
    }
    stripe.operands.push_back(operand);
    return stripe.operands.size() - 1;
  }

  /// Where a stripe's part of a value lies; null for inputs, which are bound later, and for what nobody reads.
  void* address(std::size_t index, std::uint32_t id) {
    const PlanValue& value = plan_.values[plan_.values[id].root];
    const auto i = static_cast<std::size_t>(value.index);
    const bool f64 = options_.compute == DType::kF64;
    switch (value.storage) {
      case Storage::kNone:
      case Storage::kInput:
        return nullptr;
      case Storage::kArena:
        return impl_->stripes[index].arena.get() + value.offset;
      case Storage::kConstant:
        return impl_->constants[i].get();
      case Storage::kParam:
        if (f64) return impl_->groups[i].values_f64.get() + value.offset;
        return impl_->groups[i].params->values().data() + value.offset;
      case Storage::kShadow:
        return impl_->groups[i].shadow.get() + value.offset;
      case Storage::kState:
        if (f64) return impl_->state.values_f64.get() + value.offset;
        return impl_->state.params->values().data() + value.offset;
      case Storage::kGradient:
        return impl_->stripes[index].gradients[i].get() + value.offset * bytes(DType::kF32);
      case Storage::kOutput: {
        const Shape& shape = value.spec.shape;
        const std::int64_t row_elements = shape.elements() / batch_;
        return impl_->outputs[i].data.get() + impl_->stripes[index].first_row * row_elements * bytes(value.spec.dtype);
      }
    }
    return nullptr;
  }

  void make_results() {
    for (std::size_t s = 0; s < impl_->stripes.size(); ++s) {
      for (std::size_t i = 0; i < plan_.outputs.size(); ++i) {
        if (impl_->outputs[i].spec.place != Place::kRows)
          impl_->outputs[i].parts.push_back(address(s, plan_.outputs[i]));
      }
      for (std::size_t i = 0; i < plan_.metrics.size(); ++i) {
        impl_->metrics[i].parts.push_back(address(s, plan_.metrics[i]));
      }
    }
    for (std::size_t i = 0; i < plan_.assigned.size(); ++i) {
      const PlanValue& state = plan_.values[data_.assigns[i].first];
      impl_->assigns.push_back({address(0, plan_.assigned[i]), state.offset, state.spec.shape.elements()});
    }
    make_minimized();
  }

  void make_minimized() {
    for (const MinimizeDef& def : data_.minimized) {
      Minimized& made = impl_->minimized.emplace_back();
      made.group = static_cast<std::size_t>(def.group);
      made.spec = def.spec;
      const ParamLayout& layout = data_.groups[made.group].layout;
      make_stretches(made, layout);
      if (std::holds_alternative<Lars>(def.spec.rule)) made.lars.emplace(layout);
      made.kept = KeptLengths(layout);
      for (const Stripe& stripe : impl_->stripes) {
        made.gradients.push_back(reinterpret_cast<const float*>(stripe.gradients[made.group].get()));
      }
      if (options_.compute == DType::kF64) {
        made.gradient_f64 = make_aligned<float>(static_cast<std::size_t>(layout.elements));
      }
    }
  }

  static void make_stretches(Minimized& made, const ParamLayout& layout) {
    for (std::size_t i = 0; i < layout.entries.size(); ++i) {
      const ParamEntry& entry = layout.entries[i];
      auto& list = entry.policy == VariablePolicy::kSync ? made.shared : made.own;
      if (!list.empty() && list.back().end == entry.offset) {
        list.back().end = layout.end(i);
      } else {
        list.push_back({entry.offset, layout.end(i)});
      }
    }
    made.decay = layout.decay_stretches();
    for (const auto* list : {&made.shared, &made.own}) {
      for (const Stretch& stretch : *list) {
        for (std::int64_t begin = stretch.begin; begin < stretch.end; begin += kNormBlock) {
          made.blocks.push_back({begin, std::min(begin + kNormBlock, stretch.end)});
        }
      }
      if (made.norm_blocks == 0) made.norm_blocks = made.blocks.size();
    }
    made.squares.resize(made.blocks.size());
  }

  /// Cuts the gradients that replicas reduce into buckets, from the last layer on, and has a thread of its own reduce
  /// them; unless they are small, or a replica's own gradients must be looked at before the first of them, or several
  /// runs make a gradient.
  void make_exchange() {
    if (accumulates()) return;
    std::int64_t elements = 0;
    for (const Minimized& m : impl_->minimized) {
      if (!m.spec.reduce) continue;
      if (!m.own.empty()) return;
      elements += data_.groups[m.group].layout.elements;
    }
    if (options_.bucket_bytes <= 0 || elements * 4 < 2 * options_.bucket_bytes || !options_.update) return;
    std::map<std::pair<std::int32_t, std::int64_t>, std::size_t> written;  // group, offset: by the call
    for (std::size_t i = 0; i < plan_.nodes.size(); ++i) {
      for (const std::uint32_t id : plan_.nodes[i].outputs) {
        const PlanValue& value = plan_.values[plan_.values[id].root];
        if (value.storage == Storage::kGradient) written[{value.index, value.offset}] = i;
      }
    }
    std::vector<GradientExchange::Bucket> buckets;
    for (std::size_t m = 0; m < impl_->minimized.size(); ++m) {
      if (!impl_->minimized[m].spec.reduce) continue;
      const auto group = static_cast<std::int32_t>(impl_->minimized[m].group);
      const ParamLayout& layout = data_.groups[impl_->minimized[m].group].layout;
      GradientExchange::Bucket next{.minimized = m, .end = layout.elements};
      for (std::size_t i = layout.entries.size(); i-- > 0;) {
        next.begin = layout.entries[i].offset;
        next.ready = std::max(next.ready, written.at({group, next.begin}));
        if (i > 0 && (next.end - next.begin) * 4 < options_.bucket_bytes) continue;
        buckets.push_back(next);
        next = {.minimized = m, .end = next.begin};
      }
    }
    std::ranges::stable_sort(buckets, {}, &GradientExchange::Bucket::ready);
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      buckets[b].name = fmt::format("{}/{}", data_.groups[impl_->minimized[buckets[b].minimized].group].name, b);
    }
    impl_->exchange = std::make_unique<GradientExchange>(
        std::move(buckets), impl_->pool.threads(),
        [impl = impl_](const GradientExchange::Bucket& bucket) { return impl->reduce_bucket(bucket); });
  }

  const GraphData& data_;
  const std::int64_t batch_;
  const CompileOptions options_;
  Program::Impl* impl_ = nullptr;
  Plan plan_;
};

}  // namespace

Result<std::unique_ptr<Program>> Program::compile(const Graph& graph, const CompileOptions& asked) {
  TROUPE_TRY(graph.status());
  if (const auto& max = max_instruction_set(); !max.ok()) return max.error();
  CompileOptions options = asked;
  options.device = resolve(asked.device);
  if (options.stripes == 0) {
    const std::int64_t threads = std::min<std::int64_t>(options.threads, graph.batch());
    options.stripes = options.device.is_gpu() ? 1 : static_cast<int>(std::max<std::int64_t>(threads, 1));
  }
  const DType compute = options.compute;
  if (compute != DType::kF32 && compute != DType::kBF16 && compute != DType::kF64) {
    return Error{Code::kInvalidArgument, fmt::format("compile: compute type {}, expected float32, bfloat16 or float64",
                                                     troupe::to_string(compute))};
  }
  if (options.accumulate < 1) {
    return Error{Code::kInvalidArgument,
                 fmt::format("compile: accumulate is {}, expected at least 1", options.accumulate)};
  }
  if (options.stripes < 1 || options.stripes > graph.batch()) {
    return Error{Code::kInvalidArgument, fmt::format("compile: {} stripes for a batch of {}, expected 1 to the batch",
                                                     options.stripes, graph.batch())};
  }
  if (compute == DType::kF64) {
    for (const Joint& joint : GraphAccess::data(graph).joints) {
      if (joint.forward)
        return Error{Code::kInvalidArgument, "compile: joint functions work on float32, not on float64"};
    }
  }
  if (options.device.is_gpu() && (options.stripes != 1 || options.devices != 1 || compute == DType::kF64)) {
    return Error{Code::kInvalidArgument,
                 fmt::format("compile: {} stripes on {} devices in {}, expected 1, 1 and float32 or bfloat16 on {}",
                             options.stripes, options.devices, troupe::to_string(compute), to_string(options.device))};
  }
  if (options.threads < 0) {
    return Error{Code::kInvalidArgument, fmt::format("compile: {} threads, expected at least 0", options.threads)};
  }
  if (options.devices < 1) {
    return Error{Code::kInvalidArgument, fmt::format("compile: {} devices, expected at least 1", options.devices)};
  }
  int devices = 1;
  for (const Node& node : GraphAccess::data(graph).nodes) devices = std::max(devices, node.device + 1);
  devices = std::min(devices, options.devices);
  const int processors = std::max(static_cast<int>(std::thread::hardware_concurrency()), 1);
  const int threads = std::min(options.threads == 0 ? processors : options.threads, options.stripes);
  auto impl = std::make_unique<Impl>(options.stripes, threads, devices);
  TROUPE_TRY(Compiler(graph, options).run(*impl));
  if (options.plans == PlanChoice::kMeasured) measurer().keep();
  impl->set_rows(graph.batch());
  std::unique_ptr<Program> program(new Program(std::move(impl)));
  program->parameters_changed();
  TROUPE_TRY(program->impl_->lost);
  return program;
}

}  // namespace troupe::learner
