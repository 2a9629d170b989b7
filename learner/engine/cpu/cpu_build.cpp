// From a plan to pointers on the processor: buffers are allocated, kernels chosen and matrix products prepared, once.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <thread>

#include <troupe/learner/engine/cpu/cpu_program.hpp>
#include <troupe/learner/engine/cpu/fastest.hpp>
#include <troupe/learner/engine/cpu/instruction_set.hpp>
#include <troupe/learner/ops/internal.hpp>

namespace troupe::learner {

class CpuProgram::Builder {
 public:
  Builder(CpuProgram& made, const GraphData& data, const Plan& plan)
      : made_(made), host_(made.host_), options_(host_.options), data_(data), plan_(plan) {}

  Status run() {
    make_copies();
    for (std::size_t s = 0; s < made_.stripes_.size(); ++s) TROUPE_TRY(make_stripe(s));
    make_results();
    make_exchange();
    const std::vector<Call>& calls = made_.stripes_[0].calls;
    for (std::size_t i = 0; i < calls.size() && made_.stripes_.size() > 1; ++i) {
      if (calls[i].function == nullptr) made_.stops_.push_back(i);
    }
    made_.stops_.push_back(calls.size());
    return {};
  }

 private:
  std::int64_t bytes(DType dtype) const { return element_bytes(dtype, options_.compute); }

  /// What there is of parameters, gradients and constants beside the Host's.
  void make_copies() {
    const auto copies = [this](const ParamLayout& layout, bool shadow) {
      Copies& made = made_.copies_.emplace_back();
      const auto elements = static_cast<std::size_t>(layout.elements);
      if (options_.compute == DType::kBF16 && shadow) made.shadow = make_aligned<std::uint16_t>(elements);
      if (options_.compute == DType::kF64) made.values_f64 = make_aligned<double>(elements);
    };
    for (const Group& group : host_.groups) copies(group.params->layout(), true);
    copies(host_.state.params->layout(), false);
    for (const Minimized& m : host_.minimized) {
      Gradients& made = made_.gradients_.emplace_back();
      made.squares.resize(m.blocks.size());
      made.stripes.push_back(m.values());
      for (std::size_t s = 1; s < made_.stripes_.size(); ++s) {
        const std::int64_t elements = host_.groups[m.group].params->layout().elements;
        made.own.push_back(make_memory(elements * bytes(DType::kF32), false));
        made.stripes.push_back(reinterpret_cast<const float*>(made.own.back().get()));
      }
    }
    for (const std::vector<float>& values : data_.constants) {
      made_.constants_.push_back(make_memory(static_cast<std::int64_t>(values.size()) * bytes(DType::kF32), false));
      std::byte* const to = made_.constants_.back().get();
      if (options_.compute == DType::kF64) {
        std::ranges::copy(values, reinterpret_cast<double*>(to));
      } else {
        std::ranges::copy(values, reinterpret_cast<float*>(to));
      }
    }
    made_.inputs_.resize(host_.inputs.size());
    made_.joints_.resize(host_.joints.size());
  }

  Status make_stripe(std::size_t index) {
    Stripe& stripe = made_.stripes_[index];
    const std::int64_t batch = host_.batch;
    const auto count = static_cast<std::int64_t>(made_.stripes_.size()), s = static_cast<std::int64_t>(index);
    stripe.rows = batch / count + (s < batch % count ? 1 : 0);
    stripe.first_row = s * (batch / count) + std::min(s, batch % count);
    stripe.arena = make_memory(plan_.arena_bytes, !data_.joints.empty());
    made_.arena_bytes_ += static_cast<std::size_t>(plan_.arena_bytes);
    for (const PlanValue& value : plan_.values) {
      if (value.spec.place == Place::kRows && value.spec.shape[0] * stripe.rows % batch != 0) {
        return Error{
            Code::kInvalidArgument,
            fmt::format("compile: rows of {} cannot be cut evenly for a stripe of {} of {} rows; choose another "
                        "number of stripes",
                        value.spec.shape.to_string(), stripe.rows, batch)};
      }
      stripe.shapes.push_back(local_shape(value.spec, batch, stripe.rows));
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
    for (int device = 0; device < host_.devices; ++device) {
      std::size_t most = 0;
      for (const Call& call : stripe.calls) {
        if (call.device != device) continue;
        if (call.args.conv != nullptr) most = std::max(most, call.args.conv->workspace_bytes());
        if (call.args.gemm != nullptr) most = std::max(most, call.args.gemm->workspace_bytes());
      }
      stripe.workspaces.push_back(make_aligned<std::byte>(most));
      made_.arena_bytes_ += most;
      for (Call& call : stripe.calls) {
        if (call.device == device) call.args.workspace = stripe.workspaces.back().get();
      }
    }
    return {};
  }

  Status make_call(std::size_t index, const PlanNode& node) {
    Stripe& stripe = made_.stripes_[index];
    if (node.op == nullptr) {
      JointCall& joint = made_.joints_[static_cast<std::size_t>(node.joint)];
      const bool calls = static_cast<bool>(host_.joints[static_cast<std::size_t>(node.joint)].forward);
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
      if (index == 1 && joint.input.place != Place::kReplicated && calls) joint.whole_in = whole(joint.input);
      if (index == 1 && joint.output.place == Place::kRows && calls) joint.whole_out = whole(joint.output);
      stripe.calls.push_back({.joint = node.joint, .name = "joint"});
      return {};
    }
    stripe.attrs.push_back(node.attr);
    const auto is_bf16 = [&](std::uint32_t id) { return plan_.values[id].spec.dtype == DType::kBF16; };
    const bool narrow = node.op->bf16_kernel != nullptr &&
                        (std::ranges::any_of(node.inputs, is_bf16) || std::ranges::any_of(node.outputs, is_bf16));
    Call call{.function = (narrow ? node.op->bf16_kernel : node.op->kernel)(made_.table_), .name = node.op->name};
    call.args.attr = &stripe.attrs.back();
    call.args.stripe = static_cast<int>(index);
    call.args.stripes = static_cast<int>(made_.stripes_.size());
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
      const DType dtype = operand == DType::kBF16 ? DType::kBF16 : made_.table_.dtype;
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
    Stripe& stripe = made_.stripes_[index];
    Operand operand{.data = address(index, id), .shape = &stripe.shapes[id]};
    fold(plan_.values[id].spec, stripe.shapes[id], &operand.rows, &operand.cols);
    const PlanValue& root = plan_.values[plan_.values[id].root];
    if (root.storage == Storage::kInput) {
      host_.inputs[static_cast<std::size_t>(root.index)].used = true;
      made_.inputs_[static_cast<std::size_t>(root.index)].at.emplace_back(index, stripe.operands.size());
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
        return made_.stripes_[index].arena.get() + value.offset;
      case Storage::kConstant:
        return made_.constants_[i].get();
      case Storage::kParam:
        if (f64) return made_.copies_[i].values_f64.get() + value.offset;
        return host_.groups[i].params->values().data() + value.offset;
      case Storage::kShadow:
        return made_.copies_[i].shadow.get() + value.offset;
      case Storage::kState:
        if (f64) return made_.copies_.back().values_f64.get() + value.offset;
        return host_.state.params->values().data() + value.offset;
      case Storage::kGradient:
        return gradient(index, i) + value.offset * bytes(DType::kF32);
      case Storage::kOutput: {
        const Shape& shape = value.spec.shape;
        const std::int64_t row_elements = shape.elements() / host_.batch;
        return host_.outputs[i].data.get() + made_.stripes_[index].first_row * row_elements * bytes(value.spec.dtype);
      }
    }
    return nullptr;
  }

  /// A stripe's flat gradient of a group, which is minimized.
  std::byte* gradient(std::size_t stripe, std::size_t group) {
    const auto found = std::ranges::find(host_.minimized, group, &Minimized::group);
    if (stripe == 0) return found->gradient.get();
    return made_.gradients_[static_cast<std::size_t>(found - host_.minimized.begin())].own[stripe - 1].get();
  }

  void make_results() {
    made_.outputs_.resize(plan_.outputs.size());
    made_.metrics_.resize(plan_.metrics.size());
    for (std::size_t i = 0; i < plan_.outputs.size(); ++i) made_.outputs_[i].place = host_.outputs[i].spec.place;
    for (std::size_t i = 0; i < plan_.metrics.size(); ++i) {
      made_.metrics_[i].place = data_.values[data_.metrics[i].value].spec.place;
    }
    for (std::size_t s = 0; s < made_.stripes_.size(); ++s) {
      for (std::size_t i = 0; i < plan_.outputs.size(); ++i) {
        made_.outputs_[i].of_stripes.push_back(address(s, plan_.outputs[i]));
      }
      for (std::size_t i = 0; i < plan_.metrics.size(); ++i) {
        made_.metrics_[i].of_stripes.push_back(address(s, plan_.metrics[i]));
      }
    }
    for (const std::uint32_t id : plan_.assigned) made_.assigned_.push_back(address(0, id));
  }

  /// Cuts the gradients that replicas reduce into buckets, from the last layer on, and has a thread of its own reduce
  /// them; unless they are small, or a replica's own gradients must be looked at before the first of them, or several
  /// runs make a gradient.
  void make_exchange() {
    if (host_.accumulates()) return;
    std::int64_t elements = 0;
    for (const Minimized& m : host_.minimized) {
      if (!m.spec.reduce) continue;
      if (!m.shares.own.empty()) return;
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
    for (std::size_t m = 0; m < host_.minimized.size(); ++m) {
      if (!host_.minimized[m].spec.reduce) continue;
      const auto group = static_cast<std::int32_t>(host_.minimized[m].group);
      const ParamLayout& layout = data_.groups[host_.minimized[m].group].layout;
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
      buckets[b].name = fmt::format("{}/{}", data_.groups[host_.minimized[buckets[b].minimized].group].name, b);
    }
    made_.exchange_ = std::make_unique<GradientExchange>(
        std::move(buckets), made_.pool_.threads(),
        [made = &made_](const GradientExchange::Bucket& bucket) { return made->reduce_bucket(bucket); });
  }

  CpuProgram& made_;
  Host& host_;
  const CompileOptions& options_;
  const GraphData& data_;
  const Plan& plan_;
};

Result<std::unique_ptr<CpuProgram>> CpuProgram::make(const GraphData& data, const Plan& plan, Host& host) {
  const int processors = std::max(static_cast<int>(std::thread::hardware_concurrency()), 1);
  const CompileOptions& options = host.options;
  const int threads = std::min(options.threads == 0 ? processors : options.threads, options.stripes);
  std::unique_ptr<CpuProgram> made(new CpuProgram(host, threads));
  TROUPE_TRY(Builder(*made, data, plan).run());
  if (options.plans == PlanChoice::kMeasured) measurer().keep();
  return made;
}

namespace {

class CpuEngine final : public Engine {
 public:
  Status complete(const GraphData& data, std::int64_t batch, CompileOptions* options) const override {
    if (const auto& max = max_instruction_set(); !max.ok()) return max.error();
    if (options->stripes == 0) {
      options->stripes = static_cast<int>(std::clamp<std::int64_t>(options->threads, 1, batch));
    }
    if (options->compute != DType::kF64) return {};
    for (const Joint& joint : data.joints) {
      if (joint.forward) {
        return Error{Code::kInvalidArgument, "compile: joint functions work on float32, not on float64"};
      }
    }
    return {};
  }
  Result<std::unique_ptr<Executable>> compile(const GraphData& data, Host& host) const override {
    TROUPE_ASSIGN(const Plan plan, make_plan(data, plan_options(host)));
    TROUPE_ASSIGN(auto made, CpuProgram::make(data, plan, host));
    return std::unique_ptr<Executable>(std::move(made));
  }
};

}  // namespace

const Engine& cpu_engine() {
  static const CpuEngine engine;
  return engine;
}

}  // namespace troupe::learner
