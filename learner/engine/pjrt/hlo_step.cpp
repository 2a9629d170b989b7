#include <troupe/learner/engine/pjrt/hlo_step.hpp>

#include <fmt/format.h>

#include <algorithm>

#include <troupe/core/check.hpp>
#include <troupe/learner/ops/hlo_parts.hpp>

namespace troupe::learner {

HloStep::HloStep(const GraphData& data, std::int64_t batch, const HloOptions& options, hlo::Builder& to,
                 const HloPart& part)
    : groups(data.groups.size()),
      state(data.state.layout.entries.size()),
      values(data.values.size()),
      gradients(data.minimized.size()),
      data_(data),
      batch_(batch),
      options_(options),
      to_(to),
      part_(part) {
  for (std::size_t g = 0; g < groups.size(); ++g) groups[g].values.resize(layout_of(g).entries.size());
}

const ParamLayout& HloStep::layout_of(std::size_t group) const {
  const GroupDef& of = data_.groups[group];
  return of.online >= 0 ? data_.groups[static_cast<std::size_t>(of.online)].layout : of.layout;
}

// ---- nodes ----

/// What the nodes read of groups, state and constants.
void HloStep::bind_sources() {
  for (std::uint32_t id = 0; id < data_.values.size(); ++id) {
    const Value& value = data_.values[id];
    if (!part_.reads(id)) continue;
    const auto index = static_cast<std::size_t>(value.index), entry = static_cast<std::size_t>(value.entry);
    if (value.source == Source::kParam) values[id] = groups[index].values[entry];
    if (value.source == Source::kState) values[id] = state[entry];
    if (value.source == Source::kConstant) values[id] = to_.constant(data_.constants[index], value.spec.shape);
  }
}

Status HloStep::add(const Node& node) {
  if (!part_.is_here(node)) return {};
  std::vector<hlo::Value> in;
  std::vector<ValueSpec> in_specs, out_specs;
  for (const std::uint32_t id : node.inputs) {
    in.push_back(values[id]);
    in_specs.push_back(data_.values[id].spec);
  }
  for (const std::uint32_t id : node.outputs) out_specs.push_back(data_.values[id].spec);
  to_.set_location(fmt::format("{} %{}", node.op == nullptr ? "joint" : node.op->name, node.outputs[0]));
  if (node.op == nullptr) {
    const Joint& joint = data_.joints[static_cast<std::size_t>(node.joint)];
    values[node.outputs[0]] = join(joint, in[0], out_specs[0].shape);
    return {};
  }
  TROUPE_ASSIGN(const hlo::Values made,
                lower(*node.op, {to_, in, in_specs, out_specs, node.attr, batch_, rows, first_row}));
  for (std::size_t o = 0; o < node.outputs.size(); ++o) values[node.outputs[o]] = made[o];
  return {};
}

hlo::Value HloStep::join(const Joint& joint, const hlo::Value& in, const Shape& out) {
  if (!joint.forward) return in;  // one stripe has all of the sum
  hlo::Joint of{in, rows, batch_};
  if (joint.gradient_of >= 0) {
    const Node& forward = data_.nodes[static_cast<std::size_t>(joint.gradient_of)];
    of.taken = values[forward.inputs[0]];
    of.given = values[forward.outputs[0]];
  }
  hlo::Value made = (*joint.forward.rule(static_cast<std::size_t>(options_.replicas)))(of);
  TROUPE_CHECK(made.shape() == out, "a joint gives {}, expected {}", made.shape().to_string(), out.to_string());
  return made;
}

Result<hlo::Values> lower(const OpDef& op, const hlo::Node& node) {
  if (op.hlo == nullptr) {
    return Error{Code::kInvalidArgument,
                 fmt::format("pjrt: the operation {} has no rule for this engine: give its OpDef one (hlo), or run on "
                             "cpu or cuda",
                             op.name)};
  }
  hlo::Values made = op.hlo(node);
  TROUPE_CHECK(made.size() >= node.out_specs.size(), "{} gives {} values, expected {}", op.name, made.size(),
               node.out_specs.size());
  for (std::size_t o = 0; o < node.out_specs.size(); ++o) {
    TROUPE_CHECK(made[o].shape() == node.out_specs[o].shape, "{} gives {} as output {}, expected {}", op.name,
                 made[o].shape().to_string(), o, node.out_specs[o].shape.to_string());
  }
  return made;
}

// ---- the step ----

Status HloStep::compute() {
  bind_sources();
  for (const Node& node : data_.nodes) TROUPE_TRY(add(node));
  for (std::size_t i = 0; !applies() && i < gradients.size(); ++i) {
    gradients[i] = {};
    if (!part_.is_due(i)) continue;
    const std::vector<ParamEntry>& entries = layout_of_minimized(i).entries;
    for (std::size_t e = 0; e < entries.size(); ++e) {
      const std::uint32_t id = data_.minimized[i].gradients[e];
      gradients[i].push_back(part_.is_here(id) ? reshape(values[id], entries[e].shape) : hlo::Value());
    }
  }
  if (updates() && options_.replicas > 1 && !applies()) average_over_replicas();
  if (updates()) update();
  if (!part_.is_last()) return {};
  to_.set_location("metrics and state");
  std::vector<hlo::Value> shown;
  for (std::size_t i = 0; !applies() && i < data_.metrics.size(); ++i) {
    shown.push_back(reshape(values[data_.metrics[i].value], {1}));
  }
  if (updates()) shown.push_back(reshape(convert(!finite, hlo::Element::kF32), {1}));
  if (!shown.empty()) metrics = concat(shown, 0);
  for (const auto& [to, value] : data_.assigns) {
    if (applies()) break;
    const auto entry = static_cast<std::size_t>(data_.values[to].entry);
    const hlo::Value assigned = reshape(values[value], data_.state.layout.entries[entry].shape);
    state[entry] = updates() ? select(finite, assigned, state[entry]) : assigned;
  }
  return {};
}

void HloStep::average_over_replicas() {
  const hlo::Value own = convert(rows, hlo::Element::kF32);
  const hlo::Value share = own / maximum(sum_of_replicas(own, options_.replicas), 1);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!part_.is_due(i) || !data_.minimized[i].spec.reduce) continue;
    gradients[i] = mean_of_replicas(layout_of_minimized(i), gradients[i], share, options_.replicas);
  }
}

/// All gradients decide together whether anything changes, as in learner/engine/cpu/cpu_update.cpp; those that
/// replicas do not share, for all replicas.
void HloStep::update() {
  std::vector<hlo::Value> squares(gradients.size());
  finite = to_.constant(1, {{}, hlo::Element::kBool});
  bool differs = false;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!part_.is_due(i)) continue;
    const HloShares shares = shares_of(layout_of_minimized(i), gradients[i]);
    squares[i] = sum_of_squares(shares.measured());
    finite = finite & is_finite(squares[i]);
    if (!shares.own.empty() && !shares.shared.empty()) finite = finite & is_finite(sum_of_squares(shares.own));
    differs |= !shares.own.empty() && data_.minimized[i].spec.reduce;
  }
  if (differs && options_.replicas > 1) {
    const hlo::Value bad = convert(!finite, hlo::Element::kI32);
    finite = is_equal(sum_of_replicas(bad, options_.replicas), 0);
  }
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!part_.is_due(i)) continue;
    const auto row = static_cast<std::int64_t>(i);
    const MinimizeDef& of = data_.minimized[i];
    const auto index = static_cast<std::size_t>(of.group);
    to_.set_location("update of " + layout_of(index).group);
    const hlo::Value rule = reshape(slice(rules, {row, 0}, {row + 1, kHloRuleNumbers}), {kHloRuleNumbers});
    groups[index] = updated(of.spec, layout_of(index), groups[index], gradients[i], squares[i], rule, finite);
  }
  for (std::size_t g = 0; g < data_.groups.size(); ++g) {
    const GroupDef& of = data_.groups[g];
    if (of.online < 0) continue;
    to_.set_location("update of " + of.name);
    const auto at = static_cast<std::int64_t>(g);
    const hlo::Value now = is_greater(reshape(slice(due, {at}, {at + 1}), {}), 0) & finite;
    const HloTensors& online = groups[static_cast<std::size_t>(of.online)].values;
    HloTensors& values = groups[g].values;
    if (of.decay == 0) {
      values = to_.choose(
          now, [&] { return online; }, [&] { return values; });
      continue;
    }
    const double share = static_cast<float>(1 - of.decay);
    for (std::size_t e = 0; e < values.size(); ++e) {
      values[e] = select(now, values[e] + share * (online[e] - values[e]), values[e]);
    }
  }
}

}  // namespace troupe::learner
