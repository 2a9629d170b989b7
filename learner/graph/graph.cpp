#include <troupe/learner/graph/graph.hpp>

#include <fmt/format.h>

#include <algorithm>

#include <troupe/core/check.hpp>
#include <troupe/learner/graph/graph_data.hpp>

namespace troupe::learner {

std::string_view to_string(Place place) {
  switch (place) {
    case Place::kReplicated:
      return "replicated";
    case Place::kRows:
      return "rows";
    case Place::kPartial:
      return "partial sum";
  }
  return "?";
}

Shape local_shape(const ValueSpec& spec, std::int64_t batch, std::int64_t rows) {
  if (spec.place != Place::kRows) return spec.shape;
  std::vector<std::int64_t> dims(spec.shape.dims().begin(), spec.shape.dims().end());
  dims[0] = dims[0] * rows / batch;  // compilation checks that it comes out even
  return Shape(dims);
}

void fold(const ValueSpec& spec, const Shape& local, std::int64_t* rows, std::int64_t* cols) {
  if (local.rank() == 1 && spec.place == Place::kRows) {
    *rows = local[0], *cols = 1;
    return;
  }
  *cols = local.rank() == 0 ? 1 : local[local.rank() - 1];
  *rows = *cols == 0 ? 0 : local.elements() / *cols;
}

namespace {

Var add_value(Graph& graph, GraphData& data, Value value) {
  data.values.push_back(value);
  return {&graph, static_cast<std::uint32_t>(data.values.size() - 1)};
}

/// The Var of entry `index` of a group or of the state, made at the first call.
Var entry_value(Graph& graph, GraphData& data, GroupDef& group, const Shape& shape, Source source, std::int32_t owner,
                std::size_t index) {
  if (group.value.size() <= index) group.value.resize(index + 1, -1);
  if (group.value[index] < 0) {
    Var made = add_value(graph, data,
                         {{shape, DType::kF32, Place::kReplicated}, source, owner, static_cast<std::int32_t>(index)});
    group.value[index] = made.id;
    return made;
  }
  return {&graph, static_cast<std::uint32_t>(group.value[index])};
}

}  // namespace

Graph::Graph(std::int64_t batch)
    : batch_(batch), data_(new GraphData, [](GraphData* data) { delete data; }) {  // opaque, hence new
  data_->state.name = data_->state.layout.group = "state";
  if (batch < 1) fail(Code::kInvalidArgument, fmt::format("graph: batch {}, expected at least 1", batch));
}

Var Graph::fail(Code code, std::string message) {
  if (status_.ok()) status_ = Error{code, std::move(message)};
  return {};
}

void Graph::set_device(int device) {
  if (device < 0) fail(Code::kOutOfRange, fmt::format("device {}, expected at least 0", device));
  device_ = device;
}

const ValueSpec& Graph::spec(Var value) const {
  TROUPE_CHECK(value.graph == this, "a value of another graph, or an invalid one");
  return data_->values[value.id].spec;
}

Var Graph::input(std::string_view name, const Shape& row_shape, DType dtype) {
  if (!status_.ok()) return {};
  if (dtype != DType::kF32 && dtype != DType::kI32 && dtype != DType::kU8) {
    return fail(Code::kInvalidArgument,
                fmt::format("input \"{}\": {}, expected float32, int32 or uint8", name, troupe::to_string(dtype)));
  }
  if (std::ranges::count(data_->inputs, name, &InputDef::name) > 0) {
    return fail(Code::kAlreadyExists, fmt::format("input \"{}\" exists", name));
  }
  Var made = add_value(*this, *data_,
                       {{row_shape.with_leading(batch_), dtype, Place::kRows},
                        Source::kInput,
                        static_cast<std::int32_t>(data_->inputs.size())});
  data_->inputs.push_back({std::string(name), made.id});
  return made;
}

Var Graph::shared_input(std::string_view name, const Shape& shape) {
  Var made = input(name, shape);
  if (made) data_->values[made.id].spec = {shape, DType::kF32, Place::kReplicated};
  return made;
}

Var Graph::constant(const Shape& shape, std::vector<float> values) {
  if (!status_.ok()) return {};
  if (static_cast<std::int64_t>(values.size()) != shape.elements()) {
    return fail(Code::kShapeMismatch,
                fmt::format("constant: {} values for shape {}", values.size(), shape.to_string()));
  }
  data_->constants.push_back(std::move(values));
  return add_value(*this, *data_,
                   {{shape, DType::kF32, Place::kReplicated},
                    Source::kConstant,
                    static_cast<std::int32_t>(data_->constants.size() - 1)});
}

ParamGroup Graph::group(std::string_view name) {
  auto& groups = data_->groups;
  const auto found = std::ranges::find(groups, name, &GroupDef::name);
  if (found != groups.end()) return {static_cast<std::int32_t>(found - groups.begin())};
  groups.emplace_back();
  groups.back().name = groups.back().layout.group = name;
  return {static_cast<std::int32_t>(groups.size() - 1)};
}

ParamGroup Graph::target(ParamGroup online, std::int64_t every_steps) {
  if (status_.ok() && every_steps < 1) {
    fail(Code::kInvalidArgument, fmt::format("target every {} steps: expected at least 1", every_steps));
  }
  return follower(online, "target", every_steps, 0);
}

ParamGroup Graph::average(ParamGroup online, double decay, std::int64_t every_steps) {
  if (status_.ok() && !(decay > 0 && decay < 1)) {
    fail(Code::kInvalidArgument, fmt::format("average with decay {}: expected between 0 and 1", decay));
  }
  if (status_.ok() && every_steps < 1) {
    fail(Code::kInvalidArgument, fmt::format("average every {} steps: expected at least 1", every_steps));
  }
  return follower(online, "average", every_steps, decay);
}

ParamGroup Graph::follower(ParamGroup online, std::string_view suffix, std::int64_t every_steps, double decay) {
  if (!status_.ok()) return {};
  const std::string name = data_->groups[static_cast<std::size_t>(online.index)].name;
  if (data_->groups[static_cast<std::size_t>(online.index)].online >= 0) {
    fail(Code::kInvalidArgument, fmt::format("{} of \"{}\": expected an online group", suffix, name));
    return {};
  }
  const ParamGroup made = group(fmt::format("{}.{}", name, suffix));
  GroupDef& twin = data_->groups[static_cast<std::size_t>(made.index)];
  if (twin.online >= 0 && (twin.every_steps != every_steps || twin.decay != decay)) {
    fail(Code::kAlreadyExists, fmt::format("{} of \"{}\" every {} steps with decay {}: exists with every {} and {}",
                                           suffix, name, every_steps, decay, twin.every_steps, twin.decay));
    return {};
  }
  twin.online = online.index;
  twin.every_steps = every_steps;
  twin.decay = decay;
  return made;
}

Var Graph::param(ParamGroup group, std::string_view name, const Shape& shape, Init init) {
  if (!status_.ok()) return {};
  GroupDef& own = data_->groups[static_cast<std::size_t>(group.index)];
  GroupDef& online = own.online < 0 ? own : data_->groups[static_cast<std::size_t>(own.online)];
  const std::string full_name = fmt::format("{}/{}", online.name, name);
  const ParamEntry* entry = online.layout.find(full_name);
  if (entry == nullptr) {
    const std::int32_t owner = own.online < 0 ? group.index : own.online;
    if (std::ranges::count(data_->minimized, owner, &MinimizeDef::group) > 0) {
      return fail(Code::kInvalidArgument,
                  fmt::format("param \"{}\": new after minimize(\"{}\")", full_name, online.name));
    }
    online.layout.add(full_name, shape);
    online.inits.push_back(init);
    entry = &online.layout.entries.back();
  } else if (entry->shape != shape) {
    return fail(Code::kShapeMismatch, fmt::format("param \"{}\": exists with shape {}, got {}", full_name,
                                                  entry->shape.to_string(), shape.to_string()));
  }
  const auto index = static_cast<std::size_t>(entry - online.layout.entries.data());
  return entry_value(*this, *data_, own, shape, Source::kParam, group.index, index);
}

void Graph::exempt_from_decay(Var param) {
  if (!status_.ok() || !param) return;
  const Value& value = data_->values[param.id];
  if (value.source != Source::kParam) {
    fail(Code::kInvalidArgument, "exempt_from_decay: expected a parameter");
    return;
  }
  const GroupDef& own = data_->groups[static_cast<std::size_t>(value.index)];
  GroupDef& online = data_->groups[static_cast<std::size_t>(own.online < 0 ? value.index : own.online)];
  online.layout.entries[static_cast<std::size_t>(value.entry)].decays = false;
}

void Graph::keep_length(std::span<const Var> params, LengthOf of, double length) {
  constexpr std::size_t kMost = 4;  // that a GPU's kernel takes (TROUPE_CUDA_KEPT_PARTS)
  if (!status_.ok() || std::ranges::any_of(params, [](Var param) { return !param; })) return;
  if (params.empty() || params.size() > kMost || !(length > 0)) {
    fail(Code::kInvalidArgument, fmt::format("keep_length: {} parameters and length {}, expected 1 to {} and above 0",
                                             params.size(), length, kMost));
    return;
  }
  KeptLength kept{.length = length};
  GroupDef* group = nullptr;
  for (const Var param : params) {
    const Value& value = data_->values[param.id];
    if (value.source != Source::kParam) {
      fail(Code::kInvalidArgument, "keep_length: expected parameters");
      return;
    }
    const GroupDef& own = data_->groups[static_cast<std::size_t>(value.index)];
    GroupDef& online = data_->groups[static_cast<std::size_t>(own.online < 0 ? value.index : own.online)];
    const ParamEntry& entry = online.layout.entries[static_cast<std::size_t>(value.entry)];
    const int rank = entry.shape.rank();
    const std::int64_t columns = of == LengthOf::kAll || rank == 0 ? 1 : entry.shape[rank - 1];
    if (group != nullptr && (group != &online || columns != kept.columns)) {
      fail(Code::kInvalidArgument,
           fmt::format("keep_length: \"{}\" of {} columns, expected one of the group \"{}\" with {}", entry.name,
                       columns, group->name, kept.columns));
      return;
    }
    group = &online;
    kept.columns = columns;
    kept.entries.push_back(static_cast<std::size_t>(value.entry));
  }
  std::vector<KeptLength>& all = group->layout.kept;
  if (std::ranges::find(all, kept) != all.end()) return;
  for (const std::size_t entry : kept.entries) {
    const auto has_it = [&](const KeptLength& other) { return std::ranges::count(other.entries, entry) > 0; };
    if (std::ranges::none_of(all, has_it) && std::ranges::count(kept.entries, entry) == 1) continue;
    fail(Code::kInvalidArgument,
         fmt::format("keep_length: \"{}\" keeps a length already", group->layout.entries[entry].name));
    return;
  }
  all.push_back(std::move(kept));
}

Var Graph::state(std::string_view name, const Shape& shape, Init init) {
  if (!status_.ok()) return {};
  const std::string full_name = fmt::format("state/{}", name);
  const ParamEntry* entry = data_->state.layout.find(full_name);
  if (entry == nullptr) {
    data_->state.layout.add(full_name, shape);
    data_->state.layout.entries.back().policy = VariablePolicy::kLocal;  // until the replica API says otherwise
    data_->state.inits.push_back(init);
    entry = &data_->state.layout.entries.back();
  } else if (entry->shape != shape) {
    return fail(Code::kShapeMismatch, fmt::format("state \"{}\": exists with shape {}, got {}", name,
                                                  entry->shape.to_string(), shape.to_string()));
  }
  const auto index = static_cast<std::size_t>(entry - data_->state.layout.entries.data());
  return entry_value(*this, *data_, data_->state, shape, Source::kState, 0, index);
}

void Graph::assign(Var state, Var value) {
  if (!status_.ok()) return;
  const ValueSpec& from = spec(value);
  if (data_->values[state.id].source != Source::kState || from.place != Place::kReplicated ||
      from.shape != spec(state).shape) {
    fail(Code::kShapeMismatch,
         fmt::format("assign: {} value {} to {}: expected a replicated value and a state of the same shape",
                     learner::to_string(from.place), from.shape.to_string(), spec(state).shape.to_string()));
    return;
  }
  for (auto& [of, last] : data_->assigns) {
    if (of == state.id) {
      last = value.id;
      return;
    }
  }
  data_->assigns.emplace_back(state.id, value.id);
}

Var Graph::latest(Var state) {
  if (!status_.ok()) return {};
  for (const auto& [of, last] : data_->assigns) {
    if (of == state.id) return {this, last};
  }
  return state;
}

void Graph::output(std::string_view name, Var value) {
  if (!status_.ok()) return;
  if (spec(value).dtype == DType::kU8) {
    fail(Code::kInvalidArgument, fmt::format("output \"{}\": uint8, expected real numbers; use from_bytes()", name));
    return;
  }
  data_->outputs.push_back({std::string(name), value.id});
}

void Graph::metric(std::string_view name, Var scalar) {
  if (!status_.ok()) return;
  const ValueSpec& got = spec(scalar);
  if (got.shape.rank() != 0 || got.place == Place::kRows) {
    fail(Code::kShapeMismatch,
         fmt::format("metric \"{}\": shape {}, expected a scalar; use mean()", name, got.shape.to_string()));
    return;
  }
  data_->metrics.push_back({std::string(name), scalar.id});
}

std::vector<Var> Graph::emit(const OpDef& op, std::span<const Var> inputs, const Attr& attr) {
  if (!status_.ok()) return std::vector<Var>(8);  // more than any op's outputs: callers index what they know
  std::vector<ValueSpec> specs;
  Node node{.op = &op, .attr = attr, .device = device_};
  for (const Var input : inputs) {
    if (input.graph != this) {
      fail(Code::kInvalidArgument, fmt::format("{}: operand {} belongs to another graph", op.name, specs.size()));
      return std::vector<Var>(8);
    }
    specs.push_back(spec(input));
    node.inputs.push_back(input.id);
  }
  Result<std::vector<ValueSpec>> made = op.infer(specs, attr);
  if (!made.ok()) {
    fail(made.error().code, fmt::format("{}: {}", op.name, made.error().message));
    return std::vector<Var>(8);
  }
  std::vector<Var> outputs;
  for (const ValueSpec& output : *made) {
    outputs.push_back(add_value(*this, *data_,
                                {output, Source::kNode, static_cast<std::int32_t>(data_->nodes.size()),
                                 static_cast<std::int32_t>(outputs.size())}));
    node.outputs.push_back(outputs.back().id);
  }
  data_->nodes.push_back(std::move(node));
  return outputs;
}

Var Graph::emit1(const OpDef& op, std::initializer_list<Var> inputs, const Attr& attr) {
  return emit(op, std::span<const Var>(inputs.begin(), inputs.size()), attr)[0];
}

Var Graph::emit_joint(Var value, JointFn forward, JointFn backward, const ValueSpec* made_as) {
  if (!status_.ok()) return {};
  ValueSpec out = made_as == nullptr ? spec(value) : *made_as;
  if (out.dtype != DType::kF32) {
    return fail(Code::kInvalidArgument, fmt::format("joint: {}, expected float32", troupe::to_string(out.dtype)));
  }
  if (out.place == Place::kPartial) out.place = Place::kReplicated;
  Var made = add_value(*this, *data_, {out, Source::kNode, static_cast<std::int32_t>(data_->nodes.size())});
  data_->nodes.push_back({.inputs = {value.id},
                          .outputs = {made.id},
                          .joint = static_cast<std::int32_t>(data_->joints.size()),
                          .device = device_});
  data_->joints.push_back({std::move(forward), std::move(backward)});
  return made;
}

Var Graph::emit_largest(Var value) {
  const Var made = emit_joint(value, nullptr, nullptr);
  if (made) data_->joints.back().largest = true;
  return made;
}

std::string Graph::to_string() const {
  std::string text;
  for (const Node& node : data_->nodes) {
    for (const std::uint32_t id : node.outputs) {
      const ValueSpec& out = data_->values[id].spec;
      text += fmt::format("%{} {} {}, ", id, out.shape.to_string(), learner::to_string(out.place));
    }
    text += fmt::format("= {}(", node.op == nullptr ? "joint" : node.op->name);
    for (const std::uint32_t id : node.inputs) text += fmt::format(" %{}", id);
    text += node.device == 0 ? " )\n" : fmt::format(" ) @{}\n", node.device);
  }
  return text;
}

}  // namespace troupe::learner
