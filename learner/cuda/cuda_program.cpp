#include <troupe/learner/cuda/cuda_program.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include <troupe/learner/apply_update.hpp>

namespace troupe::learner {

namespace {

// More than a run of any model has; only rows of batches that are short in ever new ways could make more.
constexpr std::size_t kMaxVariants = 64;

template <typename T>
std::size_t bytes_of(const ParamBuffer& params) {
  return static_cast<std::size_t>(params.layout().elements) * sizeof(T);
}
std::size_t block_bytes(const ParamBuffer& params) { return bytes_of<float>(params) * (1 + params.slots().size()); }

}  // namespace

CudaProgram::~CudaProgram() {
  if (!gpu_->use().ok()) return;
  const TroupeCudaApi& api = gpu_->api();
  if (stream_ != nullptr) (void)api.synchronise(stream_);
  for (auto& [variant, recorded] : recorded_) forget(recorded);
  for (TroupeCudaProduct* const product : products_) api.destroy_product(product);
  for (TroupeCudaConv* const conv : convs_) cudnn_->destroy_conv(conv);
  if (stream_ != nullptr) (void)api.destroy_stream(stream_);
}

void CudaProgram::forget(Recorded& recorded) {
  for (TroupeCudaGraph* const graph : recorded.graphs) (void)gpu_->api().destroy_graph(graph);
  recorded = {};
}

// ---- parameters ----

Status CudaProgram::send_parameters() {
  TROUPE_TRY(gpu_->use());
  const TroupeCudaApi& api = gpu_->api();
  const auto send = [&](const ParamBuffer& params, const DeviceGroup& to) -> Status {
    if (to.block.bytes() == 0) return {};
    TROUPE_TRY(check(api.copy(to.block.get(), params.values().data(), block_bytes(params), stream_), "parameters"));
    if (to.shadow.bytes() == 0) return {};
    return check(api.to_bf16(to.block.as<float>(), to.shadow.as<std::uint16_t>(), params.layout().elements, stream_),
                 "bfloat16 parameters");
  };
  for (std::size_t g = 0; g < groups_.size(); ++g) TROUPE_TRY(send(*host_.groups[g].params, groups_[g]));
  TROUPE_TRY(send(*host_.state.params, state_));
  fetched_.assign(groups_.size() + 1, true);
  return synchronise();
}

Status CudaProgram::fetch_parameters(std::size_t group) {
  if (fetched_[group]) return {};
  const bool is_state = group == groups_.size();
  ParamBuffer& params = is_state ? *host_.state.params : *host_.groups[group].params;
  const DeviceGroup& from = is_state ? state_ : groups_[group];
  if (from.block.bytes() > 0) {
    TROUPE_TRY(gpu_->use());
    TROUPE_TRY(check(gpu_->api().copy(params.values().data(), from.block.get(), block_bytes(params), stream_),
                     "reading parameters"));
    TROUPE_TRY(synchronise());
  }
  fetched_[group] = true;
  return {};
}

Status CudaProgram::fetch_gradient(std::size_t index) {
  if (gradient_fetched_[index]) return {};
  TROUPE_TRY(gpu_->use());
  const Minimized& minimized = host_.minimized[index];
  const DeviceGroup& group = groups_[minimized.group];
  float* const to = const_cast<float*>(minimized.gradients[0]);
  TROUPE_TRY(check(gpu_->api().copy(to, group.gradient.get(), group.gradient.bytes(), stream_), "reading a gradient"));
  TROUPE_TRY(synchronise());
  gradient_fetched_[index] = true;
  return {};
}

Status CudaProgram::assign_states() {
  TROUPE_TRY(gpu_->use());
  TROUPE_TRY(check(gpu_->api().fill(rules_.get(), 0, sizeof(TroupeCudaControl), stream_), "assigning state"));
  TROUPE_TRY(enqueue_assigns());
  fetched_.back() = false;
  return synchronise();
}

// ---- a step ----

CudaProgram::Variant CudaProgram::variant() {
  std::int64_t due = 0, bit = 1;
  for (const Minimized& m : host_.minimized) {
    if (host_.due(m.spec.every_steps)) due |= bit;
    bit *= 2;
  }
  for (const Group& group : host_.groups) {
    if (group.online >= 0 && host_.due(group.every_steps)) due |= bit;
    bit *= 2;
  }
  const bool accumulates = host_.accumulation != nullptr && host_.phase != Phase::kGradients;
  return {static_cast<std::int64_t>(host_.phase), host_.rows, due, accumulates && host_.updates_now() ? 1 : 0,
          accumulates ? host_.gradient_rows() : 0};
}

void CudaProgram::fill_inputs() {
  for (std::size_t i = 0; i < host_.inputs.size(); ++i) {
    const Slice& slice = input_slices_[i];
    if (slice.bytes > 0) std::memcpy(host_inputs_.get() + slice.offset, host_.inputs[i].data, slice.bytes);
  }
}

void CudaProgram::fill_rules() {
  std::memset(host_rules_.get(), 0, sizeof(TroupeCudaControl));
  auto* const rules = reinterpret_cast<TroupeCudaRule*>(host_rules_.get() + sizeof(TroupeCudaControl));
  for (std::size_t i = 0; i < host_.minimized.size(); ++i) {
    const OptimizerSpec& spec = host_.minimized[i].spec;
    const UpdateRule rule(spec, host_.step / spec.every_steps);
    const UpdateArgs& args = rule.constants();
    rules[i] = {.adam = std::holds_alternative<Adam>(spec.rule),
                .nesterov = args.nesterov,
                .step_size = args.step_size,
                .beta1 = args.beta1,
                .beta2 = args.beta2,
                .epsilon = args.epsilon,
                .inverse_sqrt_correction = args.inverse_sqrt_correction,
                .momentum = args.momentum,
                .weight_decay = args.weight_decay,
                .max_global_norm = static_cast<float>(spec.max_global_norm)};
  }
}

Status CudaProgram::run() {
  TROUPE_TRY(gpu_->use());
  if (host_.phase != Phase::kUpdate) fill_inputs();
  fill_rules();
  if (recorded_.size() > kMaxVariants) {
    for (auto& [variant, recorded] : recorded_) forget(recorded);
    recorded_.clear();
  }
  Recorded& recorded = recorded_[variant()];
  ++recorded.runs;
  std::size_t index = 0;
  Stretch next;
  if (host_.phase != Phase::kUpdate) {
    next.inputs = true;
    for (const std::size_t function : functions_) {
      next.end = function;
      TROUPE_TRY(run_stretch(next, recorded, &index));
      TROUPE_TRY(run_joint(nodes_[function]));
      next = {.begin = function + 1};
    }
    next.end = nodes_.size();
  }
  if (host_.phase == Phase::kUpdate) TROUPE_TRY(send_changed_gradients());
  if (host_.phase != Phase::kGradients) {
    next.accumulate = host_.accumulation != nullptr;
    const auto reduces = [](const Minimized& m) { return static_cast<bool>(m.spec.reduce); };
    if (host_.updates_now() && std::ranges::any_of(host_.minimized, reduces)) {
      TROUPE_TRY(run_stretch(next, recorded, &index));
      TROUPE_TRY(reduce());
      next = {};
    }
    next.update = true;
    fetched_.assign(groups_.size() + 1, false);
  }
  next.results = true;
  TROUPE_TRY(run_stretch(next, recorded, &index));
  TROUPE_TRY(synchronise());
  gradient_fetched_.assign(host_.minimized.size(), false);
  read_results();
  return {};
}

/// The first time as it is, the second time recorded, then replayed.
Status CudaProgram::run_stretch(const Stretch& stretch, Recorded& recorded, std::size_t* index) {
  if (recorded.runs == 1) return enqueue(stretch);
  const TroupeCudaApi& api = gpu_->api();
  const std::size_t at = (*index)++;
  if (at == recorded.graphs.size()) {
    TROUPE_TRY(check(api.begin_capture(stream_), "recording a step"));
    const Status enqueued = enqueue(stretch);
    TroupeCudaGraph* graph = nullptr;
    const Status ended = check(api.end_capture(stream_, &graph), "recording a step");
    if (!enqueued.ok()) {  // half of a step
      if (ended.ok()) (void)api.destroy_graph(graph);
      return enqueued;
    }
    TROUPE_TRY(ended);
    recorded.graphs.push_back(graph);
  }
  return check(api.launch_graph(recorded.graphs[at], stream_), "starting a step");
}

Status CudaProgram::enqueue(const Stretch& stretch) {
  const TroupeCudaApi& api = gpu_->api();
  const auto copy = [&](const gpu::GpuMemory& to, const gpu::GpuMemory& from, std::string_view what) -> Status {
    return to.bytes() == 0 ? Status{} : check(api.copy(to.get(), from.get(), to.bytes(), stream_), what);
  };
  if (stretch.inputs) TROUPE_TRY(copy(inputs_, host_inputs_, "sending the batch"));
  for (std::size_t i = stretch.begin; i < stretch.end; ++i) TROUPE_TRY(enqueue_node(nodes_[i]));
  if (stretch.accumulate) TROUPE_TRY(enqueue_accumulation());
  if (stretch.update) {
    TROUPE_TRY(copy(rules_, host_rules_, "sending the optimisers' constants"));
    TROUPE_TRY(enqueue_update());
  }
  if (stretch.results) {
    for (const auto& [to, from] : gathered_) {
      TROUPE_TRY(check(api.copy(results_.get() + to.offset, from, to.bytes, stream_), "gathering results"));
    }
    TROUPE_TRY(check(api.copy(results_.get(), rules_.get(), sizeof(TroupeCudaControl), stream_), "gathering results"));
    TROUPE_TRY(copy(host_results_, results_, "reading results"));
  }
  return {};
}

Status CudaProgram::enqueue_node(const Node& node) {
  if (node.minimized >= 0 && host_.idle(host_.minimized[static_cast<std::size_t>(node.minimized)])) return {};
  const TroupeCudaApi& api = gpu_->api();
  const TroupeCudaCall& call = node.call;
  if (node.joint >= 0) {  // the whole of what one shard has
    const auto bytes = static_cast<std::size_t>(call.in[0].rows * call.in[0].cols) * sizeof(float);
    return check(api.copy(call.out[0].data, call.in[0].data, bytes, stream_), node.name);
  }
  if (call.conv != nullptr) {
    const float* const bias = call.inputs > 2 ? static_cast<const float*>(call.in[2].data) : nullptr;
    return gpu_->check(
        cudnn_->run(call.conv, call.in[0].data, call.in[1].data, bias, call.out[0].data, call.workspace, stream_),
        node.name, cudnn_->library_error);
  }
  TroupeCudaCall with_rows = call;
  with_rows.valid = {host_.rows, host_.batch};
  return check(api.launch(node.kernel, &with_rows, stream_), node.name);
}

Status CudaProgram::enqueue_accumulation() {
  const bool last = host_.updates_now();
  const float share = 1 / static_cast<float>(std::max<std::int64_t>(host_.gradient_rows(), 1));
  for (const Minimized& m : host_.minimized) {
    if (host_.idle(m)) continue;
    const ParamBuffer& params = *host_.groups[m.group].params;
    const DeviceGroup& group = groups_[m.group];
    TROUPE_TRY(
        check(gpu_->api().accumulate(group.gradient.as<float>(), group.section(params, params.slots().size()),
                                     params.layout().elements, static_cast<float>(host_.rows), share, last, stream_),
              "accumulating gradients"));
  }
  return {};
}

Status CudaProgram::enqueue_assigns() {
  for (std::size_t i = 0; i < host_.assigns.size(); ++i) {
    TROUPE_TRY(check(gpu_->api().assign(assigned_from_[i], state_.block.as<float>() + host_.assigns[i].offset,
                                        host_.assigns[i].elements, rules_.as<TroupeCudaControl>(), stream_),
                     "assigning state"));
  }
  return {};
}

Status CudaProgram::enqueue_update() {
  const TroupeCudaApi& api = gpu_->api();
  auto* const control = rules_.as<TroupeCudaControl>();
  const auto* const rules = reinterpret_cast<const TroupeCudaRule*>(rules_.get() + sizeof(TroupeCudaControl));
  if (host_.minimized.empty() || !host_.updates_now() || !host_.options.update) return enqueue_assigns();

  std::array<TroupeCudaGradient, TROUPE_CUDA_MAX_MINIMIZED> judged{};
  for (std::size_t i = 0; i < host_.minimized.size(); ++i) {
    const Minimized& m = host_.minimized[i];
    judged[i].rules = rules + i;
    judged[i].squares = squares_of_[i];
    if (host_.idle(m)) continue;
    double* squares = squares_of_[i];
    for (const auto* list : {&m.shared, &m.own}) {
      for (const auto& [begin, end] : *list) {
        const float* const from = groups_[m.group].gradient.as<float>() + begin;
        TROUPE_TRY(check(api.sum_squares(from, end - begin, squares, stream_), "the length of a gradient"));
        squares += (end - begin + kNormBlock - 1) / kNormBlock;
      }
    }
    judged[i].blocks = static_cast<std::int64_t>(m.blocks.size());
    judged[i].norm_blocks = static_cast<std::int64_t>(m.norm_blocks);
  }
  TROUPE_TRY(check(api.decide(judged.data(), static_cast<std::int32_t>(host_.minimized.size()), control, stream_),
                   "judging gradients"));
  for (std::size_t i = 0; i < host_.minimized.size(); ++i) {
    const Minimized& m = host_.minimized[i];
    const ParamBuffer& params = *host_.groups[m.group].params;
    const DeviceGroup& group = groups_[m.group];
    const std::size_t slots = params.slots().size() - (host_.accumulation ? 1 : 0);
    const auto update = [&](std::int64_t begin, std::int64_t end, bool decays) -> Status {
      const TroupeCudaUpdate part{
          .values = group.section(params, 0) + begin,
          .slot0 = slots > 0 ? group.section(params, 1) + begin : nullptr,
          .slot1 = slots > 1 ? group.section(params, 2) + begin : nullptr,
          .gradient = group.gradient.as<float>() + begin,
          .shadow = group.shadow.bytes() > 0 ? group.shadow.as<std::uint16_t>() + begin : nullptr,
          .count = end - begin,
          .decays = decays,
          .minimized = static_cast<std::int32_t>(i),
          .rules = rules + i,
          .control = control};
      return check(api.update(&part, stream_), "updating parameters");
    };
    if (host_.due(m.spec.every_steps)) {
      if (std::ranges::all_of(m.decay, &DecayStretch::decays)) {
        TROUPE_TRY(update(0, params.layout().elements, true));
      } else {
        for (const DecayStretch& part : m.decay) TROUPE_TRY(update(part.begin, part.end, part.decays));
      }
    }
    if (host_.accumulation) {
      TROUPE_TRY(check(api.fill(group.section(params, params.slots().size()), 0, bytes_of<float>(params), stream_),
                       "clearing accumulated gradients"));
    }
  }
  for (std::size_t g = 0; g < host_.groups.size(); ++g) {
    const Group& group = host_.groups[g];
    if (group.online < 0 || !host_.due(group.every_steps)) continue;
    const auto online = static_cast<std::size_t>(group.online);
    if (group.decay > 0 && !host_.updates(online)) continue;
    std::uint16_t* const shadow = groups_[g].shadow.bytes() > 0 ? groups_[g].shadow.as<std::uint16_t>() : nullptr;
    TROUPE_TRY(check(api.follow(groups_[online].block.as<float>(), groups_[g].block.as<float>(), shadow, group.decay,
                                group.params->layout().elements, control, stream_),
                     "updating targets and averages"));
  }
  TROUPE_TRY(enqueue_assigns());
  return check(api.finish_step(control, stream_), "ending the step");
}

// ---- between two graphs, on the host ----

Status CudaProgram::run_joint(const Node& node) {
  if (node.minimized >= 0 && host_.idle(host_.minimized[static_cast<std::size_t>(node.minimized)])) return {};
  if (host_.joints[static_cast<std::size_t>(node.joint)].joint.forward.gpu() == gpu_->index()) {
    return run_joint_here(node);
  }
  const TroupeCudaApi& api = gpu_->api();
  const auto values = [](const TroupeCudaOperand& of, std::vector<std::byte>& memory) -> std::span<float> {
    const auto count = static_cast<std::size_t>(of.rows * of.cols);
    memory.resize(count * sizeof(float));
    return {reinterpret_cast<float*>(memory.data()), count};
  };
  const TroupeCudaOperand &from = node.call.in[0], &to = node.call.out[0];
  const std::span<float> in = values(from, joint_in_), out = values(to, joint_out_);
  TROUPE_TRY(check(api.copy(in.data(), from.data, in.size_bytes(), stream_), node.name));
  TROUPE_TRY(synchronise());
  TROUPE_TRY(host_.joints[static_cast<std::size_t>(node.joint)].joint.forward({in, out, host_.rows}));
  TROUPE_TRY(check(api.copy(to.data, out.data(), out.size_bytes(), stream_), node.name));
  return synchronise();
}

Status CudaProgram::reduce() {
  gradient_fetched_.assign(host_.minimized.size(), false);
  if (reduces_here()) return reduce_here();
  for (std::size_t i = 0; i < host_.minimized.size(); ++i) {
    if (!host_.idle(host_.minimized[i])) TROUPE_TRY(fetch_gradient(i));
  }
  TROUPE_TRY(host_.reduce_gradients());
  return send_changed_gradients();
}

Status CudaProgram::send_changed_gradients() {
  for (std::size_t i = 0; i < host_.minimized.size(); ++i) {
    if (!gradient_fetched_[i]) continue;
    const Minimized& m = host_.minimized[i];
    const gpu::GpuMemory& to = groups_[m.group].gradient;
    TROUPE_TRY(check(gpu_->api().copy(to.get(), m.gradients[0], to.bytes(), stream_), "sending gradients"));
  }
  return synchronise();
}

void CudaProgram::read_results() {
  const auto* const control = host_results_.as<TroupeCudaControl>();
  host_.skip = host_.phase != Phase::kGradients && control->skip != 0;
  if (host_.phase == Phase::kUpdate) return;
  for (std::size_t i = 0; i < host_.outputs.size(); ++i) {
    std::memcpy(host_.outputs[i].data.get(), host_results_.get() + output_slices_[i].offset, output_slices_[i].bytes);
  }
  for (std::size_t i = 0; i < host_.metrics.size(); ++i) {
    float value = 0;
    std::memcpy(&value, host_results_.get() + metric_slices_[i].offset, sizeof(value));
    host_.metric_values[i] = static_cast<double>(value);
  }
}

}  // namespace troupe::learner
