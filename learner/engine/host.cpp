#include <troupe/learner/engine/host.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include <troupe/collectives/shareable_memory.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/learner/engine/initial_values.hpp>
#include <troupe/learner/engine/plan.hpp>

namespace troupe::learner {

void copy_rows(const ValueSpec& input, std::span<const std::byte> data, std::int64_t rows, std::int64_t batch,
               DType compute, std::byte* to) {
  const std::int64_t elements = input.shape.elements() / batch;  // of a row
  const auto row = static_cast<std::size_t>(elements * element_bytes(input.dtype, compute));
  if (input.dtype == DType::kF32 && compute == DType::kF64) {
    std::copy_n(reinterpret_cast<const float*>(data.data()), rows * elements, reinterpret_cast<double*>(to));
  } else {
    std::copy_n(data.data(), static_cast<std::size_t>(rows) * row, to);
  }
  for (std::int64_t r = rows; r < batch && rows > 0; ++r) {
    std::memcpy(to + static_cast<std::size_t>(r) * row, to + static_cast<std::size_t>(rows - 1) * row, row);
  }
}

AlignedArray<std::byte> make_memory(std::int64_t bytes, bool others_reduce) {
  const auto size = static_cast<std::size_t>(bytes);
  return others_reduce && size > 0 ? collectives::make_shareable(size) : make_aligned<std::byte>(size);
}

// ---- what there is ----

Shares shares_of(const ParamLayout& layout) {
  Shares made;
  for (std::size_t i = 0; i < layout.entries.size(); ++i) {
    const ParamEntry& entry = layout.entries[i];
    auto& list = entry.policy == VariablePolicy::kSync ? made.shared : made.own;
    if (!list.empty() && list.back().end == entry.offset) {
      list.back().end = layout.end(i);
    } else {
      list.push_back({entry.offset, layout.end(i)});
    }
  }
  return made;
}

namespace {

void initialise(ParamBuffer& buffer, const GroupDef& def, std::uint64_t seed) {
  for (std::size_t i = 0; i < def.inits.size(); ++i) {
    const ParamEntry& entry = buffer.layout().entries[i];
    initialise(buffer.tensor(entry), entry.shape, def.inits[i], derive_seed(seed, def.layout.entries[i].name, 0));
  }
}

void make_stretches(Minimized& made, const ParamLayout& layout) {
  made.shares = shares_of(layout);
  made.decay = layout.decay_stretches();
  for (const auto* list : {&made.shares.shared, &made.shares.own}) {
    for (const Stretch& stretch : *list) {
      for (std::int64_t begin = stretch.begin; begin < stretch.end; begin += kNormBlock) {
        made.blocks.push_back({begin, std::min(begin + kNormBlock, stretch.end)});
      }
    }
    if (made.norm_blocks == 0) made.norm_blocks = made.blocks.size();
  }
}

std::vector<Group> make_groups(const GraphData& data, const CompileOptions& options) {
  std::vector<Group> groups;
  for (const GroupDef& def : data.groups) {
    Group& group = groups.emplace_back();
    const GroupDef& online = def.online < 0 ? def : data.groups[static_cast<std::size_t>(def.online)];
    const auto minimized =
        std::ranges::find(data.minimized, static_cast<std::int32_t>(&def - data.groups.data()), &MinimizeDef::group);
    ParamLayout layout = online.layout;
    layout.group = def.name;
    for (ParamEntry& entry : layout.entries) entry.name.replace(0, online.name.size(), def.name);
    std::vector<std::string> slots;
    if (minimized != data.minimized.end() && options.update) {
      slots = slot_names(minimized->spec);
      if (options.accumulate > 1) slots.push_back("accumulated");
    }
    group.params = std::make_unique<ParamBuffer>(std::move(layout), std::move(slots));
    if (def.online < 0) {
      initialise(*group.params, def, options.seed);
      KeptLengths(def.layout).restore(group.params->values().data(), nullptr);
    }
    group.online = def.online;
    group.every_steps = def.every_steps;
    group.decay = def.decay;
  }
  for (const Group& group : groups) {  // who follows another one starts equal
    if (group.online < 0) continue;
    std::ranges::copy(groups[static_cast<std::size_t>(group.online)].params->values(), group.params->values().begin());
  }
  return groups;
}

std::vector<Minimized> make_minimized(const GraphData& data, DType compute) {
  std::vector<Minimized> all;
  for (const MinimizeDef& def : data.minimized) {
    Minimized& made = all.emplace_back();
    made.group = static_cast<std::size_t>(def.group);
    made.spec = def.spec;
    const ParamLayout& layout = data.groups[made.group].layout;
    made.gradient = make_memory(layout.elements * element_bytes(DType::kF32, compute), def.spec.reduce != nullptr);
    if (compute == DType::kF64) made.gradient_f64 = make_aligned<float>(static_cast<std::size_t>(layout.elements));
    make_stretches(made, layout);
    if (std::holds_alternative<Lars>(def.spec.rule)) made.lars.emplace(layout);
    made.kept = KeptLengths(layout);
  }
  return all;
}

}  // namespace

Host::Host(const GraphData& data, std::int64_t batch, const CompileOptions& options)
    : options(options), batch(batch), groups(make_groups(data, options)), rows(batch) {
  for (const InputDef& def : data.inputs) inputs.push_back({.name = def.name, .spec = data.values[def.value].spec});
  for (const NamedValue& def : data.outputs) {
    OutputBuffer& output = outputs.emplace_back(OutputBuffer{.name = def.name, .spec = data.values[def.value].spec});
    const std::int64_t bytes = output.spec.shape.elements() * element_bytes(output.spec.dtype, options.compute);
    output.data = make_memory(bytes, !data.joints.empty());
  }
  for (const NamedValue& metric : data.metrics) metric_names.push_back(metric.name);
  step_metrics.resize(metric_names.size());
  joints = data.joints;
  state.params = std::make_unique<ParamBuffer>(data.state.layout);
  initialise(*state.params, data.state, options.seed);
  for (const auto& [to, value] : data.assigns) {
    const Value& assigned = data.values[to];
    const ParamEntry& entry = data.state.layout.entries[static_cast<std::size_t>(assigned.entry)];
    assigns.push_back({entry.offset, assigned.spec.shape.elements()});
  }
  if (options.accumulate > 1 && options.update) {
    ParamLayout layout{.group = "accumulation"};
    layout.add("accumulation/runs", Shape{});
    layout.add("accumulation/rows", Shape{});
    accumulation = std::make_unique<ParamBuffer>(std::move(layout));
  }
  minimized = make_minimized(data, options.compute);
}

// ---- a batch ----

Status Host::check_batch(std::string_view call, const BatchView& of) const {
  if (of.rows < 0 || of.rows > batch) {
    return Error{Code::kShapeMismatch, fmt::format("{}: got {} rows, expected {} or fewer", call, of.rows, batch)};
  }
  for (const BoundInput& input : inputs) {
    const int column = of.find(input.name);
    if (column < 0) continue;
    const TensorSpec& got = (*of.signature)[static_cast<std::size_t>(column)];
    if (got.dtype == input.spec.dtype && got.shape.with_leading(batch) == input.spec.shape) continue;
    return Error{Code::kShapeMismatch,
                 fmt::format("{}: column {}, expected {} rows of an input {}{}", call, got.to_string(), batch,
                             troupe::to_string(input.spec.dtype), input.spec.shape.to_string())};
  }
  return {};
}

void Host::bind(const BatchView& of) {
  for (BoundInput& input : inputs) {
    const int column = of.find(input.name);
    if (column < 0) continue;
    const auto data = of.columns[static_cast<std::size_t>(column)];
    input.bound = true;
    input.data = data.data();
    const bool converts = input.spec.dtype == DType::kF32 && options.compute == DType::kF64;
    if (of.rows == batch && !converts) continue;
    if (!input.staging) {
      const std::int64_t bytes = input.spec.shape.elements() * element_bytes(input.spec.dtype, options.compute);
      input.staging = make_aligned<std::byte>(static_cast<std::size_t>(bytes));
    }
    copy_rows(input.spec, data, of.rows, batch, options.compute, input.staging.get());
    input.data = input.staging.get();
  }
  rows = of.rows;
}

// ---- when ----

std::int64_t Host::gradient_rows() {
  return rows + (accumulates() ? static_cast<std::int64_t>(accumulated_rows()) : 0);
}

// The sums stay as they are in the last run of an update, so that it can be tried again when a reduction fails.
void Host::accumulate(Minimized& minimized, std::int64_t begin, std::int64_t end) {
  float* const gradient = minimized.values();
  ParamBuffer& params = *groups[minimized.group].params;
  float* const sum = params.slot(rule_slots(params, true)).data();
  const float weight = static_cast<float>(rows);
  if (!updates_now()) {
    for (std::int64_t i = begin; i < end; ++i) sum[i] += weight * gradient[i];
    return;
  }
  const float share = 1 / static_cast<float>(std::max<std::int64_t>(gradient_rows(), 1));
  for (std::int64_t i = begin; i < end; ++i) gradient[i] = share * (sum[i] + weight * gradient[i]);
}

void Host::clear_accumulated(Minimized& minimized, std::int64_t begin, std::int64_t end) {
  if (!accumulates()) return;
  ParamBuffer& params = *groups[minimized.group].params;
  float* const sum = params.slot(rule_slots(params, true)).data();
  std::fill(sum + begin, sum + end, 0.0F);
}

bool Host::count_run() {
  if (!accumulates()) return true;
  const bool last = updates_now();
  accumulated_runs() = last ? 0 : accumulated_runs() + 1;
  accumulated_rows() = last ? 0 : accumulated_rows() + static_cast<float>(rows);
  return last;
}

bool Host::follows(const Group& group, std::int64_t step) const {
  if (group.online < 0 || !due(group.every_steps, step)) return false;
  if (group.decay == 0) return true;
  const auto online = std::ranges::find(minimized, static_cast<std::size_t>(group.online), &Minimized::group);
  return online != minimized.end() && due(online->spec.every_steps, step);
}

// ---- replicas ----

bool Host::reduces() const {
  return std::ranges::any_of(minimized, [](const Minimized& m) { return static_cast<bool>(m.spec.reduce); });
}

Status Host::reduce_gradients() {
  // What only this replica has may be infinite here alone, but all must skip the step: so it spoils what they share.
  const bool own_finite = std::ranges::all_of(minimized, [&](const Minimized& m) {
    return idle(m) || std::ranges::all_of(m.shares.own, [&](const Stretch& own) {
             return std::isfinite(kernels_f32().sum_squares(m.values(), own.begin, own.end));
           });
  });
  const auto spoil = [](float* shared) -> Status {
    *shared = std::numeric_limits<float>::quiet_NaN();
    return {};
  };
  return reduce_parts(
      -1, [](const Minimized& m) { return m.values(); }, own_finite ? nullptr : std::function<Status(float*)>(spoil));
}

Status Host::reduce_parts(int gpu, const std::function<float*(const Minimized&)>& gradient,
                          std::function<Status(float*)> spoil) {
  for (const Minimized& m : minimized) {
    if (!m.spec.reduce || idle(m)) continue;
    const std::string& group = groups[m.group].params->layout().group;
    float* const first = gradient(m);
    for (std::size_t i = 0; i < m.shares.shared.size(); ++i) {
      const auto [begin, end] = m.shares.shared[i];
      if (const auto spoil_now = std::exchange(spoil, nullptr)) TROUPE_TRY(spoil_now(first + begin));
      const std::string name = m.shares.shared.size() == 1 ? group : fmt::format("{}/{}", group, i);
      TROUPE_TRY(m.spec.reduce({{first + begin, first + end}, name, gradient_rows(), gpu}));
    }
  }
  return {};
}

}  // namespace troupe::learner
