#include <troupe/learner/engine/cuda/cuda_program.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include <troupe/learner/engine/apply_update.hpp>

namespace troupe::learner {

namespace {

template <typename T>
std::size_t bytes_of(const ParamBuffer& params) {
  return static_cast<std::size_t>(params.layout().elements) * sizeof(T);
}
std::size_t block_bytes(const ParamBuffer& params) { return bytes_of<float>(params) * (1 + params.slots().size()); }

}  // namespace

CudaProgram::~CudaProgram() {
  const TroupeCudaApi& api = gpu_->api();
  const bool there = gpu_->use().ok();  // of a lost GPU what the plug-in holds on the host is freed all the same
  for (const gpu::GpuStream* const stream : {&stream_, &copy_stream_}) {
    if (there && *stream != nullptr) (void)api.synchronise(*stream);
  }
  for (auto& [variant, recorded] : recorded_) forget(recorded);
  for (TroupeCudaProduct* const product : products_) api.destroy_product(product);
  for (TroupeCudaConv* const conv : convs_) cudnn_->destroy_conv(conv);
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
  float* const to = minimized.values();
  TROUPE_TRY(check(gpu_->api().copy(to, group.gradient.get(), group.gradient.bytes(), stream_), "reading a gradient"));
  TROUPE_TRY(synchronise());
  gradient_fetched_[index] = true;
  return {};
}

Status CudaProgram::begin_snapshot(std::span<const std::size_t> groups, std::span<const std::span<const float>> state) {
  std::vector<std::span<const float>> parts;
  for (const std::size_t group : groups) {
    const auto elements = static_cast<std::size_t>(host_.groups[group].params->layout().elements);
    parts.emplace_back(groups_[group].block.as<float>(), elements);
  }
  const float* const states = host_.state.params->values().data();
  for (const auto part : state) {
    parts.emplace_back(state_.block.as<float>() + (part.data() - states), part.size());
  }
  return snapshot_.begin(gpu_, parts, stream_);
}

Status CudaProgram::assign_states() {
  TROUPE_TRY(gpu_->use());
  TROUPE_TRY(check(gpu_->api().fill(control(), 0, sizeof(TroupeCudaControl), stream_), "assigning state"));
  TROUPE_TRY(enqueue_assigns());
  fetched_.back() = false;
  return synchronise();
}

// ---- what a step is ----

Status CudaProgram::enqueue_node(const Node& node) {
  if (host_.idle(node.minimized)) return {};
  const TroupeCudaApi& api = gpu_->api();
  const TroupeCudaCall& call = node.call;
  if (node.chain.size() > 1) {
    std::vector<const TroupeCudaKernel*> kernels;
    std::vector<const TroupeCudaCall*> calls;
    for (const ChainLink& link : node.chain) {
      kernels.push_back(link.kernel);
      calls.push_back(&link.call);
    }
    const auto count = static_cast<std::int32_t>(kernels.size());
    return check(api.launch_chain(kernels.data(), calls.data(), count, stream_), node.name);
  }
  if (node.joint >= 0) {  // the whole of what one stripe has
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
  std::vector<TroupeCudaAssign> parts;
  for (std::size_t i = 0; i < host_.assigns.size(); ++i) {
    parts.push_back({.from = assigned_from_[i],
                     .to = state_.block.as<float>() + host_.assigns[i].offset,
                     .count = host_.assigns[i].elements});
  }
  return check(gpu_->api().assign(parts.data(), static_cast<std::int32_t>(parts.size()), control(), stream_),
               "assigning state");
}

std::size_t CudaProgram::first_follower(std::size_t online) const {
  const auto found = std::ranges::find(host_.groups, static_cast<std::int32_t>(online), &Group::online);
  return static_cast<std::size_t>(found - host_.groups.begin());
}

void CudaProgram::add_squares(const Minimized& m, const std::vector<learner::Stretch>& of, double** next,
                              std::vector<TroupeCudaSquares>* parts) const {
  for (const auto& [begin, end] : of) {
    parts->push_back({groups_[m.group].gradient.as<float>() + begin, end - begin, *next});
    *next += (end - begin + kNormBlock - 1) / kNormBlock;
  }
}

Status CudaProgram::sum_squares(const std::vector<TroupeCudaSquares>& parts) {
  return check(gpu_->api().sum_squares(parts.data(), static_cast<std::int32_t>(parts.size()), stream_),
               "the lengths of gradients");
}

Status CudaProgram::find_lars_rate(std::size_t minimized, const UpdateStretch& variable, const TroupeCudaRule* rules) {
  const Minimized& m = host_.minimized[minimized];
  const std::int64_t count = variable.end - variable.begin, blocks = (count + kNormBlock - 1) / kNormBlock;
  double* const value_squares = lars_squares_.as<double>();
  double* const gradient_squares = value_squares + blocks;
  const float* const values = groups_[m.group].block.as<float>() + variable.begin;
  const float* const gradient = groups_[m.group].gradient.as<float>() + variable.begin;
  TROUPE_TRY(sum_squares({{values, count, value_squares}, {gradient, count, gradient_squares}}));
  const TroupeCudaLars of{.value_squares = value_squares,
                          .gradient_squares = gradient_squares,
                          .blocks = blocks,
                          .minimized = static_cast<std::int32_t>(minimized),
                          .rules = rules,
                          .control = control()};
  return check(gpu_->api().lars_rate(&of, lars_rate_.as<float>(), stream_), "a variable's learning rate");
}

void CudaProgram::add_kept(std::size_t index, std::vector<TroupeCudaKept>* parts) const {
  const ParamLayout& layout = host_.groups[index].params->layout();
  const DeviceGroup& group = groups_[index];
  for (const KeptLength& each : layout.kept) {
    TroupeCudaKept kept{.columns = each.columns, .length = each.length, .control = control()};
    static_assert(TROUPE_CUDA_KEPT_PARTS == 4);  // as Graph::keep_length() says
    for (std::size_t i = 0; i < each.entries.size(); ++i) {
      const ParamEntry& entry = layout.entries[each.entries[i]];
      kept.values[i] = group.block.as<float>() + entry.offset;
      kept.shadow[i] = group.shadow.bytes() > 0 ? group.shadow.as<std::uint16_t>() + entry.offset : nullptr;
      kept.rows[i] = entry.shape.elements() / each.columns;
    }
    parts->push_back(kept);
  }
}

Status CudaProgram::update_parts(const std::vector<TroupeCudaUpdate>& parts) {
  return check(gpu_->api().update(parts.data(), static_cast<std::int32_t>(parts.size()), stream_),
               "updating parameters");
}

Status CudaProgram::add_updates(std::size_t index, const TroupeCudaRule* rules, std::vector<TroupeCudaUpdate>* parts,
                                std::vector<bool>* moved) {
  const Minimized& m = host_.minimized[index];
  if (!host_.due(m.spec.every_steps)) return {};
  const ParamBuffer& params = *host_.groups[m.group].params;
  const DeviceGroup& group = groups_[m.group];
  const std::size_t slots = params.slots().size() - (host_.accumulates() ? 1 : 0);
  // What keeps a length does so before anything follows it.
  const std::size_t f = m.kept.empty() ? first_follower(m.group) : groups_.size();
  const DeviceGroup* const follower = f < groups_.size() ? &groups_[f] : nullptr;
  if (follower != nullptr) (*moved)[f] = true;
  const auto part = [&](std::int64_t begin, std::int64_t end, bool decays, const float* rate = nullptr) {
    return TroupeCudaUpdate{.values = group.section(params, 0) + begin,
                            .slot0 = slots > 0 ? group.section(params, 1) + begin : nullptr,
                            .slot1 = slots > 1 ? group.section(params, 2) + begin : nullptr,
                            .gradient = group.gradient.as<float>() + begin,
                            .shadow = group.shadow.bytes() > 0 ? group.shadow.as<std::uint16_t>() + begin : nullptr,
                            .count = end - begin,
                            .decays = decays,
                            .minimized = static_cast<std::int32_t>(index),
                            .rate = rate,
                            .follower = follower != nullptr ? follower->block.as<float>() + begin : nullptr,
                            .follower_shadow = follower != nullptr && follower->shadow.bytes() > 0
                                                   ? follower->shadow.as<std::uint16_t>() + begin
                                                   : nullptr,
                            .decay = follower != nullptr ? host_.groups[f].decay : 0,
                            .due = follower != nullptr ? due_of(f) : nullptr,
                            .rules = rules,
                            .control = control()};
  };
  if (m.lars) {
    for (const UpdateStretch& variable : m.lars->stretches()) {
      // The rate of each lies in memory that all share, and so moves its variable before the next one is found.
      if (variable.decays) TROUPE_TRY(find_lars_rate(index, variable, rules));
      TROUPE_TRY(update_parts(
          {part(variable.begin, variable.end, variable.decays, variable.decays ? lars_rate_.as<float>() : nullptr)}));
    }
  } else if (std::ranges::all_of(m.decay, &UpdateStretch::decays)) {
    parts->push_back(part(0, params.layout().elements, true));
  } else {
    for (const UpdateStretch& each : m.decay) parts->push_back(part(each.begin, each.end, each.decays));
  }
  return {};
}

Status CudaProgram::enqueue_update(const std::function<Status()>& beside) {
  const TroupeCudaApi& api = gpu_->api();
  TroupeCudaControl* const control = this->control();
  const auto rules = [this](std::size_t minimized) {
    return reinterpret_cast<const TroupeCudaRule*>(end_.get() + rules_at(minimized));
  };
  if (host_.minimized.empty() || !host_.updates_now() || !host_.options.update) {
    if (beside) TROUPE_TRY(beside());
    return enqueue_assigns();
  }

  std::array<TroupeCudaGradient, TROUPE_CUDA_MAX_MINIMIZED> judged{};
  std::vector<TroupeCudaSquares> squares;
  for (std::size_t i = 0; i < host_.minimized.size(); ++i) {
    const Minimized& m = host_.minimized[i];
    judged[i].rules = rules(i);
    judged[i].squares = squares_of_[i];
    if (host_.idle(m)) continue;
    double* next = squares_of_[i];
    for (const auto* list : {&m.shares.shared, &m.shares.own}) add_squares(m, *list, &next, &squares);
    judged[i].blocks = static_cast<std::int64_t>(m.blocks.size());
    judged[i].norm_blocks = static_cast<std::int64_t>(m.norm_blocks);
  }
  TROUPE_TRY(sum_squares(squares));
  TROUPE_TRY(check(api.decide(judged.data(), static_cast<std::int32_t>(host_.minimized.size()), control, stream_),
                   "judging gradients"));
  std::vector<bool> moved(groups_.size(), false);  // targets and averages, in an optimiser's pass
  const auto update_all = [&]() -> Status {
    std::vector<TroupeCudaUpdate> parts;
    for (std::size_t i = 0; i < host_.minimized.size(); ++i) TROUPE_TRY(add_updates(i, rules(i), &parts, &moved));
    TROUPE_TRY(update_parts(parts));
    std::vector<TroupeCudaKept> kept;
    for (const Minimized& m : host_.minimized) {
      if (host_.due(m.spec.every_steps)) add_kept(m.group, &kept);
    }
    TROUPE_TRY(check(api.keep_length(kept.data(), static_cast<std::int32_t>(kept.size()), stream_),
                     "keeping the lengths of parameters"));
    for (const Minimized& m : host_.minimized) {
      if (!host_.accumulates()) continue;
      const ParamBuffer& params = *host_.groups[m.group].params;
      TROUPE_TRY(
          check(api.fill(groups_[m.group].section(params, params.slots().size()), 0, bytes_of<float>(params), stream_),
                "clearing accumulated gradients"));
    }
    return {};
  };
  TROUPE_TRY(beside ? side_by_side(update_all, beside) : update_all());
  for (std::size_t g = 0; g < host_.groups.size(); ++g) {
    const Group& group = host_.groups[g];
    if (group.online < 0 || moved[g]) continue;
    const auto online = static_cast<std::size_t>(group.online);
    std::uint16_t* const shadow = groups_[g].shadow.bytes() > 0 ? groups_[g].shadow.as<std::uint16_t>() : nullptr;
    TROUPE_TRY(check(api.follow(groups_[online].block.as<float>(), groups_[g].block.as<float>(), shadow, group.decay,
                                group.params->layout().elements, due_of(g), control, stream_),
                     "updating targets and averages"));
  }
  return enqueue_assigns();
}

// ---- between two graphs, on the host ----

Status CudaProgram::run_joint(const Node& node) {
  if (host_.idle(node.minimized)) return {};
  if (host_.joints[static_cast<std::size_t>(node.joint)].forward.gpu() == gpu_->index()) {
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
  TROUPE_TRY(host_.joints[static_cast<std::size_t>(node.joint)].forward({in, out, host_.rows}));
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
    TROUPE_TRY(check(gpu_->api().copy(to.get(), m.values(), to.bytes(), stream_), "sending gradients"));
  }
  return synchronise();
}

}  // namespace troupe::learner
