#include <troupe/learner/engine/pjrt/pjrt_program.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <troupe/core/check.hpp>
#include <troupe/learner/engine/pjrt/hlo_part.hpp>
#include <troupe/learner/engine/pjrt/hlo_update.hpp>
#include <troupe/learner/engine/pjrt/pjrt_clients.hpp>
#include <troupe/learner/engine/pjrt/program_cache.hpp>

namespace troupe::learner {

namespace {

bool calls_functions(const Host& host) {
  return host.options.seat.with == nullptr &&
         std::ranges::any_of(host.joints, [](const Joint& joint) { return calls_host(joint, 1); });
}

/// What of a program ends on the host in every step.
bool host_ends(const Host& host) {
  const bool reduces = host.reduces() && host.options.seat.with == nullptr;
  return host.accumulates() || reduces || ((!host.options.update || calls_functions(host)) && !host.minimized.empty());
}

std::size_t input_bytes(const BoundInput& input) {
  return static_cast<std::size_t>(input.spec.shape.elements()) * dtype_bytes(input.spec.dtype);
}

/// Of a launch: a row for each step.
Shape of_steps(const Shape& shape, int steps) { return steps == 1 ? shape : shape.with_leading(steps); }

/// How many steps one launch can take, as on a GPU.
int steps_per_launch(const Host& host) {
  const auto differs = [](const Minimized& m) { return m.spec.every_steps != 1; };
  if (host_ends(host) || host.options.keep_gradients || host.minimized.empty() ||
      std::ranges::any_of(host.minimized, differs))
    return 1;
  std::size_t inputs = 1, outputs = 1;
  for (const BoundInput& input : host.inputs) inputs += input_bytes(input);
  for (const OutputBuffer& output : host.outputs) {
    outputs += static_cast<std::size_t>(output.spec.shape.elements()) * sizeof(float);
  }
  const auto bytes = static_cast<std::int64_t>(std::max(inputs, outputs));
  return static_cast<int>(std::clamp<std::int64_t>(kLaunchBytes / bytes, 1, kStepsPerLaunch));
}

Result<bool> all_ready(const std::vector<pjrt::Event>& events) {
  for (const pjrt::Event& event : events) {
    TROUPE_ASSIGN(const bool ready, event.is_ready());
    if (!ready) return false;
  }
  return true;
}

}  // namespace

PjrtProgram::PjrtProgram(std::shared_ptr<const pjrt::Client> client, const GraphData& data, Host& host)
    : client_(std::move(client)),
      data_(data),
      host_(host),
      device_(static_cast<std::size_t>(host.options.device.index)),
      replicas_(PjrtReplicas::of(host.options.seat)),
      calls_functions_(calls_functions(host)),
      host_ends_(host_ends(host)),
      steps_per_launch_(learner::steps_per_launch(host)),
      groups_(host.groups.size()),
      staged_(host.inputs.size()),
      inputs_(host.inputs.size()),
      fetched_(host.groups.size() + 1, true) {}

PjrtProgram::~PjrtProgram() {
  forget_arriving();
  for (const pjrt::Event& event : snapshot_events_) (void)event.await();
}

void PjrtProgram::forget_arriving() {
  // Copies that have begun write into this object's memory and the Host's.
  for (const Arriving& each : arriving_) (void)each.done.await();
  for (const pjrt::Event& event : gradients_) (void)event.await();
  arriving_.clear();
  gradients_.clear();
}

Result<std::unique_ptr<PjrtProgram>> PjrtProgram::make(std::shared_ptr<const pjrt::Client> client,
                                                       const GraphData& data, Host& host) {
  std::unique_ptr<PjrtProgram> made(new PjrtProgram(std::move(client), data, host));
  const std::vector<bool> all(host.minimized.size(), true);
  const HloPhase first = host.minimized.empty() ? HloPhase::kAct
                         : made->host_ends_     ? HloPhase::kGradients
                                                : HloPhase::kUpdate;
  TROUPE_ASSIGN(const std::vector<Part>* const compiled, made->compiled({first, all, 1}));
  for (const Part& part : *compiled) {
    for (const HloSlot& slot : part.module.arguments) {
      if (slot.role == HloRole::kInput) host.inputs[slot.index].used = true;
    }
  }
  if (first == HloPhase::kGradients && host.options.update) TROUPE_TRY(made->compiled({HloPhase::kApply, all, 1}));
  return made;
}

Result<const std::vector<PjrtProgram::Part>*> PjrtProgram::compiled(const Variant& variant) {
  if (const auto found = compiled_.find(variant); found != compiled_.end()) return &found->second;
  const Seat& seat = host_.options.seat;
  TROUPE_ASSIGN(std::vector<HloModule> modules, make_hlo_parts(data_, host_.batch,
                                                               {.phase = variant.phase,
                                                                .bf16 = host_.options.compute == DType::kBF16,
                                                                .due = variant.due,
                                                                .gradients = host_.options.keep_gradients,
                                                                .steps = variant.steps,
                                                                .replicas = seat.replicas,
                                                                .global_batch = seat.global_batch}));
  std::vector<Part> parts;
  for (HloModule& module : modules) {
    TROUPE_ASSIGN(auto executable, compile(variant, module.text));
    module.text = {};  // megabytes, which nobody reads again
    if (const auto memory = executable->about().memory(); memory.ok()) {
      bytes_ = std::max(
          bytes_, static_cast<std::size_t>(memory->arguments + memory->temporaries + memory->outputs - memory->alias));
    }
    parts.push_back({std::move(module), std::move(executable)});
  }
  return &compiled_.emplace(variant, std::move(parts)).first->second;
}

Result<std::shared_ptr<const pjrt::LoadedExecutable>> PjrtProgram::compile(const Variant& variant,
                                                                           std::string_view text) {
  if (replicas_ != nullptr) {
    const std::string key =
        fmt::format("{} {} {}", static_cast<int>(variant.phase), fmt::join(variant.due, ""), variant.steps);
    return replicas_->compiled(key, text);
  }
  TROUPE_ASSIGN(pjrt::LoadedExecutable made, program_cache().program(*client_, text,
                                                                     {.devices = {static_cast<std::int64_t>(device_)},
                                                                      .flags = compile_flags(*client_)}));
  return std::make_shared<const pjrt::LoadedExecutable>(std::move(made));
}

// ---- a run ----

Status PjrtProgram::stage(int step, const BatchView& batch) {
  for (std::size_t i = 0; i < host_.inputs.size(); ++i) {
    const BoundInput& input = host_.inputs[i];
    if (!input.used || input.kept) continue;
    const std::size_t bytes = input_bytes(input);
    staged_[i].resize(bytes * static_cast<std::size_t>(steps_per_launch_));
    std::byte* const to = staged_[i].data() + bytes * static_cast<std::size_t>(step);
    if (const int column = batch.find(input.name); column >= 0) {
      copy_rows(input.spec, batch.columns[static_cast<std::size_t>(column)], batch.rows, host_.batch,
                host_.options.compute, to);
    } else {
      std::copy_n(input.data, bytes, to);
    }
  }
  return {};
}

Status PjrtProgram::keep(std::span<const std::size_t> inputs, std::int64_t count) {
  std::vector<ValueSpec> specs;
  for (const std::size_t input : inputs) specs.push_back(host_.inputs[input].spec);
  kept_.reset();  // first, for the memory
  TROUPE_ASSIGN(kept_, PjrtRows::make(client_, device_, std::move(specs), count));
  kept_inputs_.assign(inputs.begin(), inputs.end());
  return {};
}

Status PjrtProgram::store(std::int64_t first, const BatchView& rows) {
  std::vector<std::span<const std::byte>> columns;
  for (const std::size_t input : kept_inputs_) {
    columns.push_back(rows.columns[static_cast<std::size_t>(rows.find(host_.inputs[input].name))]);
  }
  return kept_->store(first, columns, rows.rows);
}

Status PjrtProgram::stage_kept(int step, std::span<const std::int32_t> numbers, const BatchView& rest) {
  numbers_.resize(static_cast<std::size_t>(host_.batch * steps_per_launch_));
  std::ranges::copy(numbers, numbers_.begin() + host_.batch * step);
  return stage(step, rest);
}

Status PjrtProgram::begin(Inputs inputs, int steps) {
  forget_arriving();
  skips_.clear();
  if (host_.phase == Phase::kUpdate) return end_on_host();  // outputs and metrics stay
  results_.resize(host_.outputs.size());
  for (auto& rows : results_) rows.clear();
  metrics_.clear();
  if (steps > 1 && steps == steps_per_launch_) {
    TROUPE_TRY(send_inputs(inputs, 0, steps));
    return run(steps);
  }
  const std::int64_t first = host_.step;
  for (int step = 0; step < steps; ++step) {
    if (step > 0) TROUPE_TRY(collect());
    // Schedules go by the updates before, which Program counts at the end of a launch.
    host_.step = first + std::ranges::count(skips_, false);
    Status done = send_inputs(inputs, step, 1);
    if (done.ok()) done = run(1);
    host_.step = first;
    TROUPE_TRY(done);
  }
  return {};
}

Status PjrtProgram::send_inputs(Inputs from, int first, int steps) {
  const bool bound = from == Inputs::kBound;
  if (kept_ && !bound) {
    const auto numbers = std::span(numbers_).subspan(static_cast<std::size_t>(host_.batch * first),
                                                     static_cast<std::size_t>(host_.batch * steps));
    TROUPE_ASSIGN(auto taken, kept_->take(numbers, steps));
    for (std::size_t i = 0; i < taken.size(); ++i) inputs_[kept_inputs_[i]] = {std::move(taken[i])};
  }
  for (std::size_t i = 0; i < host_.inputs.size(); ++i) {
    const BoundInput& input = host_.inputs[i];
    if (!input.used || (input.kept && !bound)) continue;
    const std::byte* const at =
        bound ? input.data : staged_[i].data() + input_bytes(input) * static_cast<std::size_t>(first);
    const bool view = bound && client_->can_view(at);
    Input& to = inputs_[i];
    if (view && to.view == at) continue;  // since an earlier run
    const pjrt::HostArray array{at, input.spec.dtype, of_steps(input.spec.shape, steps)};
    TROUPE_ASSIGN(to.buffer, view ? client_->view_of_host(array, device_) : client_->copy_from_host(array, device_));
    to.view = view ? at : nullptr;
  }
  return {};
}

Status PjrtProgram::run(int steps) {
  if (host_.minimized.empty()) return execute(HloPhase::kAct);
  if (host_.phase == Phase::kStep && !host_ends_) return execute(HloPhase::kUpdate, steps);
  TROUPE_TRY(execute(HloPhase::kGradients));
  TROUPE_TRY(fetch_gradient(0));
  return host_.phase == Phase::kStep ? end_on_host() : Status();
}

Status PjrtProgram::end_on_host() {
  for (Minimized& m : host_.minimized) {
    const std::int64_t elements = host_.groups[m.group].params->layout().elements;
    if (host_.accumulates() && !host_.idle(m)) host_.accumulate(m, 0, elements);
  }
  const bool updates = host_.updates_now();
  if (updates && host_.reduces()) TROUPE_TRY(host_.reduce_gradients());
  if (!updates || !host_.options.update) return assign_states();
  TROUPE_TRY(execute(HloPhase::kApply));
  TROUPE_ASSIGN(const auto told, arriving_.back().bytes());
  float skip = 0;
  std::memcpy(&skip, told.data(), sizeof(skip));
  for (Minimized& m : host_.minimized) {
    host_.clear_accumulated(m, 0, host_.groups[m.group].params->layout().elements);
  }
  return skip != 0 ? Status() : assign_states();
}

Status PjrtProgram::execute(HloPhase phase, int steps) {
  TROUPE_TRY(lost_);
  TROUPE_ASSIGN(const std::vector<Part>* const parts, compiled({phase, due(phase), steps}));
  steps_ = steps;
  handed_.clear();
  for (const Part& part : *parts) {
    TROUPE_TRY(execute(part, phase, steps));
    for (const HloCall& call : part.module.calls) TROUPE_TRY(this->call(call));
  }
  return {};
}

Status PjrtProgram::execute(const Part& part, HloPhase phase, int steps) {
  passing_.clear();
  arguments_.clear();
  passing_.reserve(part.module.arguments.size());  // arguments_ point into it
  for (const HloSlot& slot : part.module.arguments) {
    TROUPE_ASSIGN(const pjrt::Buffer* const argument, this->argument(slot, steps));
    arguments_.push_back(argument);
  }
  auto outputs = begin_run(part);
  const Status taken = outputs.ok() ? take(phase, part.module.results, *outputs) : Status(outputs.error());
  // What was donated is gone, and nobody knows how much of what came instead is here.
  if (phase == HloPhase::kUpdate || phase == HloPhase::kApply) lost_ = taken;
  return taken;
}

Status PjrtProgram::call(const HloCall& call) {
  const Shape& out = data_.values[call.out].spec.shape;
  taken_.resize(static_cast<std::size_t>(data_.values[call.in].spec.shape.elements()));
  given_.resize(static_cast<std::size_t>(out.elements()));
  TROUPE_ASSIGN(const pjrt::Event done, handed_.at(call.in).begin_copy_to(std::as_writable_bytes(std::span(taken_))));
  TROUPE_TRY(done.await());
  TROUPE_TRY(host_.joints[call.joint].forward({taken_, given_, host_.rows}));
  TROUPE_ASSIGN(handed_[call.out], send(given_.data(), DType::kF32, out));
  return {};
}

Result<std::vector<pjrt::Buffer>> PjrtProgram::begin_run(const Part& part) {
  if (replicas_ != nullptr) return replicas_->execute(host_.options.seat.replica, *part.executable, arguments_);
  TROUPE_ASSIGN(pjrt::Outputs outputs, part.executable->execute(std::span(&arguments_, 1)));
  return std::move(outputs[0]);
}

Status PjrtProgram::take(HloPhase phase, std::span<const HloSlot> slots, std::span<pjrt::Buffer> outputs) {
  for (std::size_t r = 0; r < outputs.size(); ++r) {
    const HloSlot& slot = slots[r];
    if (slot.role == HloRole::kHanded) {
      handed_[slot.index] = std::move(outputs[r]);
    } else if (pjrt::Buffer* const to = kept(slot, phase)) {
      *to = std::move(outputs[r]);
    } else if (slot.role == HloRole::kGradient) {
      const std::span<float> on_host(gradient(slot), static_cast<std::size_t>(slot.type.shape.elements()));
      TROUPE_ASSIGN(pjrt::Event done, outputs[r].begin_copy_to(std::as_writable_bytes(on_host)));
      gradients_.push_back(std::move(done));
    } else {
      Arriving arriving{.role = slot.role, .index = slot.index, .updates = phase == HloPhase::kApply};
      arriving.size = static_cast<std::size_t>(slot.type.shape.elements()) * sizeof(float);
      if (client_->is_host()) {
        TROUPE_ASSIGN(arriving.done, outputs[r].ready());
        arriving.buffer = std::move(outputs[r]);
      } else {
        arriving.copy.resize(arriving.size);
        TROUPE_ASSIGN(arriving.done, outputs[r].begin_copy_to(std::span(arriving.copy)));
      }
      arriving_.push_back(std::move(arriving));
    }
  }
  if (phase != HloPhase::kGradients) fetched_.assign(fetched_.size(), false);
  return {};
}

std::vector<bool> PjrtProgram::due(HloPhase phase) const {
  std::vector<bool> all;
  for (const Minimized& m : host_.minimized) {
    // A gradient that is looked at is there, whether the step updates the group or not.
    const bool shown = phase == HloPhase::kGradients && host_.phase == Phase::kGradients;
    all.push_back(phase == HloPhase::kAct || shown || host_.due(m.spec.every_steps));
  }
  return all;
}

/// Where the host has a tensor of a gradient. Between them are zeros, and stay.
float* PjrtProgram::gradient(const HloSlot& slot) const {
  const Minimized& of = host_.minimized[slot.index];
  return of.values() + host_.groups[of.group].params->layout().entries[slot.entry].offset;
}

/// Where a result stays, if it does, or an argument is that stays.
pjrt::Buffer* PjrtProgram::kept(const HloSlot& slot, HloPhase phase) {
  switch (slot.role) {
    case HloRole::kParams:
      return &groups_[slot.index].values[slot.entry];
    case HloRole::kSlot:
      return &groups_[host_.minimized[slot.index].group].slots[slot.part][slot.entry];
    case HloRole::kState:
      return &(phase == HloPhase::kGradients ? next_state_ : state_)[slot.entry];
    default:
      return nullptr;
  }
}

Result<const pjrt::Buffer*> PjrtProgram::argument(const HloSlot& slot, int steps) {
  const auto keep = [&](Result<pjrt::Buffer> sent) -> Result<const pjrt::Buffer*> {
    TROUPE_ASSIGN(pjrt::Buffer buffer, std::move(sent));
    passing_.push_back(std::move(buffer));
    return &passing_.back();
  };
  switch (slot.role) {
    case HloRole::kRows:
      if (host_.rows != sent_rows_) {
        const auto rows = static_cast<std::int32_t>(host_.rows);
        TROUPE_ASSIGN(rows_, send(&rows, DType::kI32, {}));
        sent_rows_ = host_.rows;
      }
      return &rows_;
    case HloRole::kInput:
      return &inputs_[slot.index].buffer;
    case HloRole::kRules: {
      std::vector<float> rules;
      for (int step = 0; step < steps; ++step) {
        for (const Minimized& m : host_.minimized) {
          const auto row = hlo_rule(m.spec, (host_.step + step) / m.spec.every_steps);
          rules.insert(rules.end(), row.begin(), row.end());
        }
      }
      return keep(send(rules.data(), DType::kF32, slot.type.shape));
    }
    case HloRole::kDue: {
      std::vector<std::int32_t> follows;
      for (int step = 0; step < steps; ++step) {
        for (const learner::Group& group : host_.groups) {
          follows.push_back(host_.follows(group, host_.step + step) ? 1 : 0);
        }
      }
      return keep(send(follows.data(), DType::kI32, slot.type.shape));
    }
    case HloRole::kGradient:
      return keep(send(gradient(slot), DType::kF32, slot.type.shape));
    case HloRole::kHanded:
      return &handed_.at(slot.index);
    default:  // state is read before it is assigned, whatever the phase
      return kept(slot, HloPhase::kUpdate);
  }
}

Result<pjrt::Buffer> PjrtProgram::send(const void* data, DType dtype, const Shape& shape) {
  return client_->copy_from_host({data, dtype, shape}, device_);
}

Result<bool> PjrtProgram::finished() {
  for (const Arriving& each : arriving_) {
    TROUPE_ASSIGN(const bool ready, each.done.is_ready());
    if (!ready) return false;
  }
  return true;
}

Result<std::span<const std::byte>> PjrtProgram::Arriving::bytes() const {
  TROUPE_TRY(done.await());
  if (buffer) return buffer.view(size);
  return std::span<const std::byte>(copy);
}

Status PjrtProgram::collect() {
  const std::size_t metrics = host_.metric_names.size(), before = skips_.size(),
                    steps = static_cast<std::size_t>(steps_);
  skips_.resize(before + steps, false);
  for (const Arriving& each : arriving_) {
    TROUPE_ASSIGN(const auto bytes, each.bytes());
    if (each.role == HloRole::kOutput) {
      results_[each.index].insert(results_[each.index].end(), bytes.begin(), bytes.end());
      continue;
    }
    // A row for each step; behind the metrics of an update stands whether it was skipped.
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    const std::size_t row = values.size() / steps, shown = each.updates ? 0 : metrics;
    for (std::size_t step = 0; step < steps; ++step) {
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>(step * row);
      metrics_.insert(metrics_.end(), begin, begin + static_cast<std::ptrdiff_t>(shown));
      if (row > shown) skips_[before + step] = begin[static_cast<std::ptrdiff_t>(shown)] != 0;
    }
  }
  arriving_.clear();
  return {};
}

Status PjrtProgram::finish() {
  TROUPE_TRY(collect());
  host_.skips = skips_;
  if (host_.phase == Phase::kUpdate) return {};
  host_.step_metrics = metrics_;
  for (std::size_t i = 0; i < host_.outputs.size(); ++i) {
    std::copy_n(result(i, static_cast<int>(skips_.size()) - 1), results_[i].size() / skips_.size(),
                host_.outputs[i].data.get());
  }
  return {};
}

const std::byte* PjrtProgram::result(std::size_t index, int step) const {
  return results_[index].data() + results_[index].size() / skips_.size() * static_cast<std::size_t>(step);
}

// ---- parameters ----

Result<PjrtProgram::Tensors> PjrtProgram::send_all(const ParamLayout& layout, std::span<const float> flat) {
  Tensors sent;
  for (const ParamEntry& entry : layout.entries) {
    TROUPE_ASSIGN(pjrt::Buffer tensor, send(flat.data() + entry.offset, DType::kF32, entry.shape));
    sent.push_back(std::move(tensor));
  }
  return sent;
}

Status PjrtProgram::begin_fetch(const Tensors& tensors, const ParamLayout& layout, std::size_t first,
                                std::span<float> flat, std::vector<pjrt::Event>& events) {
  for (std::size_t e = first; e < tensors.size(); ++e) {
    const auto at = static_cast<std::size_t>(layout.entries[e].offset - layout.entries[first].offset);
    if (at >= flat.size()) break;
    const auto count = static_cast<std::size_t>(layout.entries[e].shape.elements());
    TROUPE_ASSIGN(pjrt::Event done, tensors[e].begin_copy_to(std::as_writable_bytes(flat.subspan(at, count))));
    events.push_back(std::move(done));
  }
  return {};
}

Status PjrtProgram::fetch(const Tensors& tensors, const ParamLayout& layout, std::span<float> flat) {
  std::vector<pjrt::Event> events;
  Status done = begin_fetch(tensors, layout, 0, flat, events);
  for (const pjrt::Event& event : events) {
    const Status arrived = event.await();  // of all: they write into the host's memory
    if (done.ok()) done = arrived;
  }
  return done;
}

Status PjrtProgram::send_parameters() {
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const ParamBuffer& params = *host_.groups[g].params;
    TROUPE_ASSIGN(groups_[g].values, send_all(params.layout(), params.values()));
    groups_[g].slots.clear();
    const bool accumulates = host_.accumulates() && !params.slots().empty();
    for (std::size_t slot = 0; slot < rule_slots(params, accumulates); ++slot) {
      TROUPE_ASSIGN(Tensors sent, send_all(params.layout(), params.slot(slot)));
      groups_[g].slots.push_back(std::move(sent));
    }
  }
  const ParamBuffer& state = *host_.state.params;
  TROUPE_ASSIGN(state_, send_all(state.layout(), state.values()));
  next_state_.clear();
  next_state_.resize(state_.size());
  fetched_.assign(fetched_.size(), true);
  return {};
}

Status PjrtProgram::fetch_parameters(std::size_t group) {
  if (fetched_[group]) return {};
  ParamBuffer& params = group == groups_.size() ? *host_.state.params : *host_.groups[group].params;
  TROUPE_TRY(fetch(group == groups_.size() ? state_ : groups_[group].values, params.layout(), params.values()));
  for (std::size_t slot = 0; group < groups_.size() && slot < groups_[group].slots.size(); ++slot) {
    TROUPE_TRY(fetch(groups_[group].slots[slot], params.layout(), params.slot(slot)));
  }
  fetched_[group] = true;
  return {};
}

/// Where one can be seen, begin() has begun to copy it.
Status PjrtProgram::fetch_gradient(std::size_t) {
  for (const pjrt::Event& gradient : gradients_) TROUPE_TRY(gradient.await());
  return {};
}

Status PjrtProgram::assign_states() {
  for (std::size_t e = 0; e < state_.size(); ++e) {
    if (!next_state_[e]) continue;
    state_[e] = std::exchange(next_state_[e], pjrt::Buffer());
    fetched_.back() = false;
  }
  return {};
}

Status PjrtProgram::begin_snapshot(std::span<const std::size_t> groups, std::span<const std::span<const float>> state) {
  std::size_t elements = 0;
  for (const std::size_t g : groups) elements += host_.groups[g].params->values().size();
  for (const auto part : state) elements += part.size();
  snapshot_events_.clear();
  snapshot_.assign(elements, 0);  // also between tensors
  std::span<float> rest = snapshot_;
  const auto next = [&rest](std::size_t count) { return std::exchange(rest, rest.subspan(count)).first(count); };
  for (const std::size_t g : groups) {
    const ParamBuffer& params = *host_.groups[g].params;
    TROUPE_TRY(begin_fetch(groups_[g].values, params.layout(), 0, next(params.values().size()), snapshot_events_));
  }
  const ParamBuffer& states = *host_.state.params;
  for (const auto part : state) {
    const std::int64_t offset = part.data() - states.values().data();
    const auto first = std::ranges::find(states.layout().entries, offset, &ParamEntry::offset);
    TROUPE_CHECK(first != states.layout().entries.end(), "a snapshot begins within a tensor of the state");
    TROUPE_TRY(begin_fetch(state_, states.layout(), static_cast<std::size_t>(first - states.layout().entries.begin()),
                           next(part.size()), snapshot_events_));
  }
  return {};
}

Result<bool> PjrtProgram::snapshot_arrived() const { return all_ready(snapshot_events_); }

}  // namespace troupe::learner
