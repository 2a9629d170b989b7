#include <troupe/learner/engine/pjrt/hlo_module.hpp>

#include <fmt/format.h>

#include <set>
#include <utility>

#include <troupe/core/check.hpp>
#include <troupe/learner/engine/pjrt/hlo_update.hpp>
#include <troupe/learner/ops/hlo_parts.hpp>

namespace troupe::learner {

namespace {

class Emitter {
 public:
  Emitter(const GraphData& data, std::int64_t batch, const HloOptions& options)
      : data_(data), batch_(batch), options_(options), to_(options.bf16) {}

  Result<HloModule> run() {
    find_live();
    add_arguments();
    plan_results();
    std::vector<hlo::Value> results;
    if (loops()) {
      results = loop();
    } else {
      compute();
      for (const HloSlot& slot : made_.results) results.push_back(current(slot));
    }
    if (!failure_.ok()) return failure_.error();
    hlo::Builder::Aliases aliases;
    for (const HloSlot& slot : made_.arguments) aliases.push_back(slot.lends_to);
    made_.text = to_.module("troupe", results, aliases);
    return std::move(made_);
  }

 private:
  const ParamLayout& layout_of(std::size_t group) const {
    const GroupDef& of = data_.groups[group];
    return of.online >= 0 ? data_.groups[static_cast<std::size_t>(of.online)].layout : of.layout;
  }

  /// Values that a result needs.
  void find_live() {
    live_.assign(data_.values.size(), false);
    if (applies()) return;
    for (const auto* named : {&data_.outputs, &data_.metrics}) {
      for (const NamedValue& each : *named) live_[each.value] = true;
    }
    for (const auto& [state, value] : data_.assigns) live_[value] = true;
    for (std::size_t i = 0; i < data_.minimized.size(); ++i) {
      if (!is_due(i)) continue;
      for (const std::uint32_t id : data_.minimized[i].gradients) live_[id] = true;
    }
    for (std::size_t index = data_.nodes.size(); index-- > 0;) {
      const Node& node = data_.nodes[index];
      if (!is_live(node)) continue;
      for (const std::uint32_t id : node.inputs) live_[id] = true;
      const std::int32_t of = node.joint < 0 ? -1 : data_.joints[static_cast<std::size_t>(node.joint)].gradient_of;
      if (of >= 0) live_[data_.nodes[static_cast<std::size_t>(of)].outputs[0]] = true;
    }
  }
  /// Whether the module has the gradient of a minimized group.
  bool is_due(std::size_t minimized) const {
    return options_.phase != HloPhase::kAct && (options_.due.empty() || options_.due[minimized]);
  }
  bool applies() const { return options_.phase == HloPhase::kApply; }
  bool updates() const { return (options_.phase == HloPhase::kUpdate || applies()) && !data_.minimized.empty(); }
  bool is_live(const Node& node) const {
    for (const std::uint32_t id : node.outputs) {
      if (live_[id]) return true;
    }
    return false;
  }

  bool loops() const { return options_.phase == HloPhase::kUpdate && options_.steps > 1; }
  /// What each step has its own of.
  hlo::Type of_steps(const hlo::Type& type) const {
    return loops() ? hlo::Type{type.shape.with_leading(options_.steps), type.element} : type;
  }
  hlo::Value argument(HloRole role, std::size_t index, const hlo::Type& type, std::size_t part = 0) {
    made_.arguments.push_back({role, index, part, type});
    return to_.argument(type);
  }

  void add_arguments() {
    rows_ = argument(HloRole::kRows, 0, {{}, hlo::Element::kI32});
    if (options_.replicas > 1) {
      const hlo::Value share = static_cast<double>(options_.global_batch) * replica_number(to_);
      first_row_ = share / filled(share, static_cast<double>(options_.replicas));
    }
    std::set<std::size_t> groups;
    bool has_state = !data_.assigns.empty() && !applies();
    for (std::uint32_t id = 0; id < data_.values.size(); ++id) {
      const Value& value = data_.values[id];
      if (live_[id] && value.source == Source::kParam) groups.insert(static_cast<std::size_t>(value.index));
      has_state |= live_[id] && value.source == Source::kState;
    }
    values_.resize(data_.values.size());
    for (std::size_t i = 0; i < data_.inputs.size(); ++i) {
      const std::uint32_t id = data_.inputs[i].value;
      const ValueSpec& spec = data_.values[id].spec;
      if (!live_[id]) continue;
      values_[id] = argument(HloRole::kInput, i, of_steps({spec.shape, hlo::element_of(spec.dtype)}));
      inputs_.emplace_back(id, values_[id]);
    }
    if (updates()) add_update_arguments(groups);
    groups_.resize(data_.groups.size());
    for (const std::size_t group : groups) {
      groups_[group].values = argument(HloRole::kParams, group, {{layout_of(group).elements}});
    }
    for (std::size_t i = 0; updates() && i < data_.minimized.size(); ++i) {
      const auto group = static_cast<std::size_t>(data_.minimized[i].group);
      const std::size_t slots = is_due(i) ? slot_names(data_.minimized[i].spec).size() : 0;
      for (std::size_t part = 0; part < slots; ++part) {
        groups_[group].slots.push_back(argument(HloRole::kSlot, i, {{layout_of(group).elements}}, part));
      }
    }
    if (has_state) state_ = argument(HloRole::kState, 0, {{data_.state.layout.elements}});
    gradients_.resize(data_.minimized.size());
    for (std::size_t i = 0; applies() && i < gradients_.size(); ++i) {
      const auto group = static_cast<std::size_t>(data_.minimized[i].group);
      if (is_due(i)) gradients_[i] = argument(HloRole::kGradient, i, {{layout_of(group).elements}});
    }
  }
  /// What the nodes read of groups, state and constants.
  void bind_sources() {
    for (std::uint32_t id = 0; id < data_.values.size(); ++id) {
      const Value& value = data_.values[id];
      if (!live_[id]) continue;
      const auto index = static_cast<std::size_t>(value.index), entry = static_cast<std::size_t>(value.entry);
      if (value.source == Source::kParam) {
        values_[id] = tensor_of(groups_[index].values, layout_of(index).entries[entry]);
      }
      if (value.source == Source::kState) values_[id] = tensor_of(state_, data_.state.layout.entries[entry]);
      if (value.source == Source::kConstant) values_[id] = to_.constant(data_.constants[index], value.spec.shape);
    }
  }
  /// What of the groups an update reads and writes, besides what the graph reads.
  void add_update_arguments(std::set<std::size_t>& groups) {
    const auto minimized = static_cast<std::int64_t>(data_.minimized.size());
    rules_ = argument(HloRole::kRules, 0, of_steps({{minimized, kHloRuleNumbers}}));
    for (std::size_t i = 0; i < data_.minimized.size(); ++i) {
      if (is_due(i)) groups.insert(static_cast<std::size_t>(data_.minimized[i].group));
    }
    bool follows = false;
    for (std::size_t g = 0; g < data_.groups.size(); ++g) {
      if (data_.groups[g].online < 0) continue;
      follows = true;
      groups.insert({g, static_cast<std::size_t>(data_.groups[g].online)});
    }
    if (follows) {
      const auto count = static_cast<std::int64_t>(data_.groups.size());
      due_ = argument(HloRole::kDue, 0, of_steps({{count}, hlo::Element::kI32}));
    }
  }

  Status add(const Node& node) {
    if (!is_live(node)) return {};
    std::vector<hlo::Value> in;
    std::vector<ValueSpec> in_specs, out_specs;
    for (const std::uint32_t id : node.inputs) {
      in.push_back(values_[id]);
      in_specs.push_back(data_.values[id].spec);
    }
    for (const std::uint32_t id : node.outputs) out_specs.push_back(data_.values[id].spec);
    if (node.op == nullptr) {
      TROUPE_ASSIGN(values_[node.outputs[0]],
                    joined(data_.joints[static_cast<std::size_t>(node.joint)], in[0], out_specs[0].shape));
      return {};
    }
    TROUPE_ASSIGN(const hlo::Values made,
                  lower(*node.op, {to_, in, in_specs, out_specs, node.attr, batch_, rows_, first_row_}));
    for (std::size_t o = 0; o < node.outputs.size(); ++o) values_[node.outputs[o]] = made[o];
    return {};
  }

  Result<hlo::Value> joined(const Joint& joint, const hlo::Value& in, const Shape& out) {
    if (!joint.forward) return in;  // one stripe has all of the sum
    const JointFn::Rule* const rule = joint.forward.rule(static_cast<std::size_t>(options_.replicas));
    if (rule == nullptr) {
      return Error{Code::kInvalidArgument,
                   fmt::format("pjrt: the step calls a function of the host's on {}, and this engine compiles whole "
                               "steps: run it on cpu or cuda",
                               in.shape().to_string())};
    }
    hlo::Joint of{in, rows_, batch_};
    if (joint.gradient_of >= 0) {
      const Node& forward = data_.nodes[static_cast<std::size_t>(joint.gradient_of)];
      of.taken = values_[forward.inputs[0]];
      of.given = values_[forward.outputs[0]];
    }
    hlo::Value made = (*rule)(of);
    TROUPE_CHECK(made.shape() == out, "a joint gives {}, expected {}", made.shape().to_string(), out.to_string());
    return made;
  }

  // ---- results: first what they are, then the step, which leaves them where current() finds them ----

  void result(HloRole role, std::size_t index, const hlo::Type& type, std::size_t part = 0) {
    for (HloSlot& slot : made_.arguments) {
      if (slot.role == role && slot.index == index && slot.part == part && updates()) {
        slot.lends_to = static_cast<std::int64_t>(made_.results.size());
      }
    }
    made_.results.push_back({role, index, part, type});
  }
  void plan_results() {
    for (std::size_t i = 0; !applies() && i < data_.outputs.size(); ++i) {
      const ValueSpec& spec = data_.values[data_.outputs[i].value].spec;
      result(HloRole::kOutput, i, of_steps({spec.shape, hlo::element_of(spec.dtype)}));
    }
    for (std::size_t i = 0; i < data_.minimized.size(); ++i) {
      if (!is_due(i)) continue;
      const auto group = static_cast<std::size_t>(data_.minimized[i].group);
      const hlo::Type flat{{layout_of(group).elements}};
      if (!updates() || (options_.gradients && !applies())) result(HloRole::kGradient, i, flat);
      if (updates()) result(HloRole::kParams, group, flat);
      for (std::size_t part = 0; part < groups_[group].slots.size(); ++part) result(HloRole::kSlot, i, flat, part);
    }
    for (std::size_t g = 0; updates() && g < data_.groups.size(); ++g) {
      if (data_.groups[g].online >= 0) result(HloRole::kParams, g, groups_[g].values.type);
    }
    const auto metrics = static_cast<std::int64_t>(applies() ? 0 : data_.metrics.size()) + (updates() ? 1 : 0);
    if (metrics > 0) result(HloRole::kMetrics, 0, of_steps({{metrics}}));
    if (!data_.assigns.empty() && !applies()) result(HloRole::kState, 0, state_.type);
  }
  /// A group's buffer, or a slot of what is minimized, or the state.
  hlo::Value& kept(const HloSlot& slot) {
    if (slot.role == HloRole::kState) return state_;
    if (slot.role == HloRole::kParams) return groups_[slot.index].values;
    return groups_[static_cast<std::size_t>(data_.minimized[slot.index].group)].slots[slot.part];
  }
  static bool is_kept(const HloSlot& slot) {
    return slot.role == HloRole::kState || slot.role == HloRole::kParams || slot.role == HloRole::kSlot;
  }
  hlo::Value current(const HloSlot& slot) {
    if (is_kept(slot)) return kept(slot);
    if (slot.role == HloRole::kMetrics) return metrics_;
    return slot.role == HloRole::kGradient ? gradients_[slot.index] : values_[data_.outputs[slot.index].value];
  }

  /// One step: its nodes, then what follows from them. A failure stays in failure_.
  void compute() {
    bind_sources();
    for (const Node& node : data_.nodes) {
      failure_ = add(node);
      if (!failure_.ok()) return;
    }
    for (std::size_t i = 0; !applies() && i < gradients_.size(); ++i) {
      gradients_[i] = {};
      if (!is_due(i)) continue;
      std::vector<hlo::Value> entries;
      for (const std::uint32_t id : data_.minimized[i].gradients) entries.push_back(values_[id]);
      gradients_[i] = flat_of(layout_of(static_cast<std::size_t>(data_.minimized[i].group)), entries);
    }
    if (updates() && options_.replicas > 1 && !applies()) average_over_replicas();
    if (updates()) update();
    std::vector<hlo::Value> metrics;
    for (std::size_t i = 0; !applies() && i < data_.metrics.size(); ++i) {
      metrics.push_back(reshape(values_[data_.metrics[i].value], {1}));
    }
    if (updates()) metrics.push_back(reshape(convert(!finite_, hlo::Element::kF32), {1}));
    if (!metrics.empty()) metrics_ = concat(metrics, 0);
    if (data_.assigns.empty() || applies()) return;
    std::vector<hlo::Value> entries;
    for (const ParamEntry& entry : data_.state.layout.entries) entries.push_back(tensor_of(state_, entry));
    for (const auto& [state, value] : data_.assigns) {
      entries[static_cast<std::size_t>(data_.values[state].entry)] = values_[value];
    }
    const hlo::Value assigned = flat_of(data_.state.layout, entries);
    state_ = updates() ? select(finite_, assigned, state_) : assigned;
  }

  /// The steps in a loop that carries how many were updates, what is kept, and a row of the others for each step.
  std::vector<hlo::Value> loop() {
    std::vector<hlo::Value> start{to_.constant(0, {{}, hlo::Element::kI32})};
    for (const HloSlot& slot : made_.results) start.push_back(is_kept(slot) ? kept(slot) : to_.constant(0, slot.type));
    const hlo::Value rules = rules_, due = due_;
    std::vector<hlo::Value> made =
        to_.loop(options_.steps, start, [&](const hlo::Value& index, std::span<const hlo::Value> carried) {
          const hlo::Value& taken = carried[0];
          for (const auto& [id, rows] : inputs_) values_[id] = row_of(rows, index);
          if (rules.to != nullptr) rules_ = row_of(rules, taken);
          if (due.to != nullptr) due_ = row_of(due, taken);
          for (std::size_t r = 0; r < made_.results.size(); ++r) {
            if (is_kept(made_.results[r])) kept(made_.results[r]) = carried[r + 1];
          }
          compute();
          std::vector<hlo::Value> next(carried.begin(), carried.end());
          if (!failure_.ok()) return next;
          next[0] = updates() ? taken + convert(finite_, hlo::Element::kI32) : taken + 1;
          for (std::size_t r = 0; r < made_.results.size(); ++r) {
            const HloSlot& slot = made_.results[r];
            next[r + 1] = is_kept(slot) ? current(slot) : with_row(carried[r + 1], index, current(slot));
          }
          return next;
        });
    made.erase(made.begin());
    return made;
  }

  void average_over_replicas() {
    const hlo::Value rows = convert(rows_, hlo::Element::kF32);
    const hlo::Value share = rows / maximum(sum_of_replicas(rows, options_.replicas), 1);
    for (std::size_t i = 0; i < gradients_.size(); ++i) {
      if (!is_due(i) || !data_.minimized[i].spec.reduce) continue;
      gradients_[i] = mean_of_replicas(gradients_[i], shares_of_group(i), share, options_.replicas);
    }
  }
  Shares shares_of_group(std::size_t minimized) const {
    return shares_of(layout_of(static_cast<std::size_t>(data_.minimized[minimized].group)));
  }

  /// All gradients decide together whether anything changes, as in learner/engine/cpu/cpu_update.cpp; those that
  /// replicas do not share, for all replicas.
  void update() {
    std::vector<hlo::Value> squares(gradients_.size());
    finite_ = to_.constant(1, {{}, hlo::Element::kBool});
    bool differs = false;
    for (std::size_t i = 0; i < gradients_.size(); ++i) {
      if (!is_due(i)) continue;
      const Shares shares = shares_of_group(i);
      squares[i] = sum_of_squares(gradients_[i], shares.measured());
      finite_ = finite_ & is_finite(squares[i]);
      if (!shares.own.empty() && !shares.shared.empty()) {
        finite_ = finite_ & is_finite(sum_of_squares(gradients_[i], shares.own));
      }
      differs |= !shares.own.empty() && data_.minimized[i].spec.reduce;
    }
    if (differs && options_.replicas > 1) {
      const hlo::Value bad = convert(!finite_, hlo::Element::kI32);
      finite_ = is_equal(sum_of_replicas(bad, options_.replicas), 0);
    }
    for (std::size_t i = 0; i < gradients_.size(); ++i) {
      if (!is_due(i)) continue;
      const auto row = static_cast<std::int64_t>(i);
      const MinimizeDef& of = data_.minimized[i];
      const auto index = static_cast<std::size_t>(of.group);
      HloGroup& group = groups_[index];
      const hlo::Value rule = reshape(slice(rules_, {row, 0}, {row + 1, kHloRuleNumbers}), {kHloRuleNumbers});
      const HloGroup next = updated(of.spec, layout_of(index), group, gradients_[i], squares[i], rule);
      group.values = select(finite_, next.values, group.values);
      for (std::size_t part = 0; part < next.slots.size(); ++part) {
        group.slots[part] = select(finite_, next.slots[part], group.slots[part]);
      }
    }
    for (std::size_t g = 0; g < data_.groups.size(); ++g) {
      const GroupDef& of = data_.groups[g];
      if (of.online < 0) continue;
      const auto at = static_cast<std::int64_t>(g);
      const hlo::Value now = is_greater(reshape(slice(due_, {at}, {at + 1}), {}), 0) & finite_;
      const hlo::Value old = groups_[g].values, &online = groups_[static_cast<std::size_t>(of.online)].values;
      // Not a select, which would read and write both buffers in every step.
      const auto follow = [&] {
        return of.decay == 0 ? online : old + static_cast<double>(static_cast<float>(1 - of.decay)) * (online - old);
      };
      groups_[g].values = to_.branch(now, follow, old);
    }
  }

  const GraphData& data_;
  std::int64_t batch_;
  const HloOptions& options_;
  hlo::Builder to_;
  HloModule made_;
  std::vector<bool> live_;
  std::vector<hlo::Value> values_;                            ///< of the graph's, by their ids
  std::vector<std::pair<std::uint32_t, hlo::Value>> inputs_;  ///< value, argument
  std::vector<HloGroup> groups_;                              ///< by their index; those that are read
  hlo::Value rows_, first_row_, rules_, due_, state_;
  std::vector<hlo::Value> gradients_;  ///< of the present step, flat; of each minimized
  hlo::Value metrics_, finite_;        ///< finite_: whether all of an update's gradients are
  Status failure_;
};

}  // namespace

std::string_view to_string(HloRole role) {
  switch (role) {
    case HloRole::kRows:
      return "rows";
    case HloRole::kInput:
      return "input";
    case HloRole::kRules:
      return "rules";
    case HloRole::kDue:
      return "due";
    case HloRole::kParams:
      return "params";
    case HloRole::kSlot:
      return "slot";
    case HloRole::kState:
      return "state";
    case HloRole::kOutput:
      return "output";
    case HloRole::kMetrics:
      return "metrics";
    case HloRole::kGradient:
      return "gradient";
  }
  return "";
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

Result<HloModule> make_hlo_module(const GraphData& data, std::int64_t batch, const HloOptions& options) {
  return Emitter(data, batch, options).run();
}

Result<HloModule> make_hlo_module(const Graph& graph, const HloOptions& options) {
  if (!graph.status().ok()) return graph.status().error();
  return make_hlo_module(GraphAccess::data(graph), graph.batch(), options);
}

}  // namespace troupe::learner
