#include <troupe/learner/engine/pjrt/hlo_module.hpp>

#include <fmt/format.h>

#include <set>
#include <tuple>
#include <utility>

#include <troupe/learner/engine/pjrt/hlo_step.hpp>

namespace troupe::learner {

namespace {

class Emitter {
 public:
  Emitter(const GraphData& data, std::int64_t batch, const HloOptions& options, std::size_t part)
      : data_(data),
        options_(options),
        part_(data, options, part),
        to_(options.bf16),
        step_(data, batch, options, to_, part_) {}

  bool is_last() const { return part_.is_last(); }
  /// Of a part that is not the last one, where there may be only one.
  Error no_functions() const {
    return {Code::kInvalidArgument, fmt::format("pjrt: the step calls a function of the host's on {}, and this is one "
                                                "program without the host: run it on cpu or cuda",
                                                data_.values[part_.calls()[0].in].spec.shape.to_string())};
  }

  Result<HloModule> run() {
    add_arguments();
    plan_results();
    std::vector<hlo::Value> results;
    if (loops()) {
      results = loop();
    } else {
      failure_ = step_.compute();
      for (const HloSlot& slot : made_.results) results.push_back(current(slot));
    }
    if (!failure_.ok()) return failure_.error();
    hlo::Builder::Aliases aliases;
    for (const HloSlot& slot : made_.arguments) aliases.push_back(slot.lends_to);
    made_.text = to_.module("troupe", results, aliases);
    made_.calls = part_.calls();
    return std::move(made_);
  }

 private:
  bool loops() const { return options_.phase == HloPhase::kUpdate && options_.steps > 1; }
  /// What each step has its own of.
  hlo::Type of_steps(const hlo::Type& type) const {
    return loops() ? hlo::Type{type.shape.with_leading(options_.steps), type.element} : type;
  }
  hlo::Type type_of(std::uint32_t value) const {
    const ValueSpec& spec = data_.values[value].spec;
    return {spec.shape, hlo::element_of(spec.dtype)};
  }
  hlo::Value argument(HloRole role, std::size_t index, const hlo::Type& type, std::size_t part = 0,
                      std::size_t entry = 0) {
    made_.arguments.push_back({role, index, part, entry, type});
    return to_.argument(type);
  }
  /// All tensors of a layout.
  HloTensors arguments(HloRole role, std::size_t index, const ParamLayout& layout, std::size_t part = 0) {
    HloTensors tensors;
    for (std::size_t e = 0; e < layout.entries.size(); ++e) {
      tensors.push_back(argument(role, index, {layout.entries[e].shape}, part, e));
    }
    return tensors;
  }

  void add_arguments() {
    step_.rows = argument(HloRole::kRows, 0, {{}, hlo::Element::kI32});
    if (options_.replicas > 1) {
      const hlo::Value share = static_cast<double>(options_.global_batch) * replica_number(to_);
      step_.first_row = share / filled(share, static_cast<double>(options_.replicas));
    }
    std::set<std::pair<std::size_t, std::size_t>> params;  // group, entry
    std::set<std::size_t> state = assigned();
    for (std::uint32_t id = 0; id < data_.values.size(); ++id) {
      const Value& value = data_.values[id];
      const auto index = static_cast<std::size_t>(value.index), entry = static_cast<std::size_t>(value.entry);
      if (part_.reads(id) && value.source == Source::kParam) params.emplace(index, entry);
      if (part_.reads(id) && value.source == Source::kState) state.insert(entry);
    }
    for (std::size_t i = 0; i < data_.inputs.size(); ++i) {
      const std::uint32_t id = data_.inputs[i].value;
      if (!part_.reads(id)) continue;
      step_.values[id] = argument(HloRole::kInput, i, of_steps(type_of(id)));
      inputs_.emplace_back(id, step_.values[id]);
    }
    std::set<std::size_t> whole;  // groups
    if (step_.updates()) add_update_arguments(whole);
    for (const std::size_t group : whole) {
      for (std::size_t e = 0; e < step_.layout_of(group).entries.size(); ++e) params.emplace(group, e);
    }
    for (const auto& [group, entry] : params) {
      const Shape& shape = step_.layout_of(group).entries[entry].shape;
      step_.groups[group].values[entry] = argument(HloRole::kParams, group, {shape}, 0, entry);
    }
    for (std::size_t i = 0; step_.updates() && i < data_.minimized.size(); ++i) {
      const auto group = static_cast<std::size_t>(data_.minimized[i].group);
      const std::size_t slots = part_.is_due(i) ? slot_names(data_.minimized[i].spec).size() : 0;
      for (std::size_t part = 0; part < slots; ++part) {
        step_.groups[group].slots.push_back(arguments(HloRole::kSlot, i, step_.layout_of(group), part));
      }
    }
    for (std::uint32_t id = 0; id < data_.values.size(); ++id) {
      if (part_.is_handed(id)) step_.values[id] = argument(HloRole::kHanded, id, type_of(id));
    }
    for (const std::size_t entry : state) {
      step_.state[entry] = argument(HloRole::kState, 0, {data_.state.layout.entries[entry].shape}, 0, entry);
    }
    for (std::size_t i = 0; step_.applies() && i < step_.gradients.size(); ++i) {
      const auto group = static_cast<std::size_t>(data_.minimized[i].group);
      if (part_.is_due(i)) step_.gradients[i] = arguments(HloRole::kGradient, i, step_.layout_of(group));
    }
  }
  /// The tensors of the state that a step writes.
  std::set<std::size_t> assigned() const {
    std::set<std::size_t> entries;
    for (const auto& [to, value] : data_.assigns) {
      if (!step_.applies() && part_.is_last()) entries.insert(static_cast<std::size_t>(data_.values[to].entry));
    }
    return entries;
  }
  /// What an update reads and writes, besides what the graph reads: whole groups.
  void add_update_arguments(std::set<std::size_t>& groups) {
    const auto minimized = static_cast<std::int64_t>(data_.minimized.size());
    step_.rules = argument(HloRole::kRules, 0, of_steps({{minimized, kHloRuleNumbers}}));
    for (std::size_t i = 0; i < data_.minimized.size(); ++i) {
      if (part_.is_due(i)) groups.insert(static_cast<std::size_t>(data_.minimized[i].group));
    }
    bool follows = false;
    for (std::size_t g = 0; g < data_.groups.size(); ++g) {
      if (data_.groups[g].online < 0) continue;
      follows = true;
      groups.insert({g, static_cast<std::size_t>(data_.groups[g].online)});
    }
    if (follows) {
      const auto count = static_cast<std::int64_t>(data_.groups.size());
      step_.due = argument(HloRole::kDue, 0, of_steps({{count}, hlo::Element::kI32}));
    }
  }

  // ---- results: first what they are, then the step, which leaves them where current() finds them ----

  void result(HloRole role, std::size_t index, const hlo::Type& type, std::size_t part = 0, std::size_t entry = 0) {
    const auto place = std::tuple(role, index, part, entry);
    for (HloSlot& slot : made_.arguments) {
      if (std::tuple(slot.role, slot.index, slot.part, slot.entry) == place && step_.updates()) {
        slot.lends_to = static_cast<std::int64_t>(made_.results.size());
      }
    }
    made_.results.push_back({role, index, part, entry, type});
  }
  void results(HloRole role, std::size_t index, const ParamLayout& layout, std::size_t part = 0) {
    for (std::size_t e = 0; e < layout.entries.size(); ++e) {
      const bool here = role != HloRole::kGradient || part_.is_here(data_.minimized[index].gradients[e]);
      if (here) result(role, index, {layout.entries[e].shape}, part, e);
    }
  }
  void plan_results() {
    for (std::size_t i = 0; !step_.applies() && i < data_.outputs.size(); ++i) {
      const std::uint32_t id = data_.outputs[i].value;
      if (part_.is_here(id)) result(HloRole::kOutput, i, of_steps(type_of(id)));
    }
    for (std::size_t i = 0; i < data_.minimized.size(); ++i) {
      if (!part_.is_due(i)) continue;
      const auto group = static_cast<std::size_t>(data_.minimized[i].group);
      const ParamLayout& layout = step_.layout_of(group);
      if (!step_.updates() || (options_.gradients && !step_.applies())) results(HloRole::kGradient, i, layout);
      if (step_.updates()) results(HloRole::kParams, group, layout);
      for (std::size_t part = 0; part < step_.groups[group].slots.size(); ++part) {
        results(HloRole::kSlot, i, layout, part);
      }
    }
    for (std::size_t g = 0; step_.updates() && g < data_.groups.size(); ++g) {
      if (data_.groups[g].online >= 0) results(HloRole::kParams, g, step_.layout_of(g));
    }
    const auto metrics =
        static_cast<std::int64_t>(step_.applies() ? 0 : data_.metrics.size()) + (step_.updates() ? 1 : 0);
    if (metrics > 0 && part_.is_last()) result(HloRole::kMetrics, 0, of_steps({{metrics}}));
    for (const std::size_t entry : assigned()) result(HloRole::kState, 0, step_.state[entry].type, 0, entry);
    for (std::uint32_t id = 0; id < data_.values.size(); ++id) {
      if (part_.hands_on(id)) result(HloRole::kHanded, id, type_of(id));
    }
  }
  /// A tensor of a group, or of a slot of what is minimized, or of the state.
  hlo::Value& kept(const HloSlot& slot) {
    if (slot.role == HloRole::kState) return step_.state[slot.entry];
    if (slot.role == HloRole::kParams) return step_.groups[slot.index].values[slot.entry];
    return step_.groups[static_cast<std::size_t>(data_.minimized[slot.index].group)].slots[slot.part][slot.entry];
  }
  static bool is_kept(const HloSlot& slot) {
    return slot.role == HloRole::kState || slot.role == HloRole::kParams || slot.role == HloRole::kSlot;
  }
  hlo::Value current(const HloSlot& slot) {
    if (is_kept(slot)) return kept(slot);
    if (slot.role == HloRole::kMetrics) return step_.metrics;
    if (slot.role == HloRole::kGradient) return step_.gradients[slot.index][slot.entry];
    return step_.values[slot.role == HloRole::kHanded ? slot.index : data_.outputs[slot.index].value];
  }

  /// The steps in a loop that carries how many were updates, what is kept, and a row of the others for each step.
  std::vector<hlo::Value> loop() {
    std::vector<hlo::Value> start{to_.constant(0, {{}, hlo::Element::kI32})};
    for (const HloSlot& slot : made_.results) start.push_back(is_kept(slot) ? kept(slot) : to_.constant(0, slot.type));
    const hlo::Value rules = step_.rules, due = step_.due;
    std::vector<hlo::Value> made =
        to_.loop(options_.steps, start, [&](const hlo::Value& index, std::span<const hlo::Value> carried) {
          const hlo::Value& taken = carried[0];
          for (const auto& [id, rows] : inputs_) step_.values[id] = row_of(rows, index);
          if (rules.to != nullptr) step_.rules = row_of(rules, taken);
          if (due.to != nullptr) step_.due = row_of(due, taken);
          for (std::size_t r = 0; r < made_.results.size(); ++r) {
            if (is_kept(made_.results[r])) kept(made_.results[r]) = carried[r + 1];
          }
          failure_ = step_.compute();
          std::vector<hlo::Value> next(carried.begin(), carried.end());
          if (!failure_.ok()) return next;
          next[0] = step_.updates() ? taken + convert(step_.finite, hlo::Element::kI32) : taken + 1;
          for (std::size_t r = 0; r < made_.results.size(); ++r) {
            const HloSlot& slot = made_.results[r];
            next[r + 1] = is_kept(slot) ? current(slot) : with_row(carried[r + 1], index, current(slot));
          }
          return next;
        });
    made.erase(made.begin());
    return made;
  }

  const GraphData& data_;
  const HloOptions& options_;
  const HloPart part_;
  hlo::Builder to_;
  HloStep step_;
  HloModule made_;
  std::vector<std::pair<std::uint32_t, hlo::Value>> inputs_;  ///< value, argument
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
    case HloRole::kHanded:
      return "handed";
  }
  return "";
}

Result<HloModule> make_hlo_module(const GraphData& data, std::int64_t batch, const HloOptions& options) {
  Emitter emitter(data, batch, options, 0);
  if (!emitter.is_last()) return emitter.no_functions();
  return emitter.run();
}

Result<HloModule> make_hlo_module(const Graph& graph, const HloOptions& options) {
  if (!graph.status().ok()) return graph.status().error();
  return make_hlo_module(GraphAccess::data(graph), graph.batch(), options);
}

Result<std::vector<HloModule>> make_hlo_parts(const GraphData& data, std::int64_t batch, const HloOptions& options) {
  const bool whole = options.phase == HloPhase::kUpdate || options.replicas > 1;
  std::vector<HloModule> parts;
  for (bool last = false; !last;) {
    Emitter emitter(data, batch, options, parts.size());
    last = emitter.is_last();
    if (whole && !last) return emitter.no_functions();
    TROUPE_ASSIGN(HloModule made, emitter.run());
    parts.push_back(std::move(made));
  }
  return parts;
}

}  // namespace troupe::learner
