#include <troupe/learner/engine/pjrt/hlo_part.hpp>

#include <algorithm>

namespace troupe::learner {

bool calls_host(const Joint& joint, std::int64_t replicas) {
  return joint.forward && joint.forward.rule(static_cast<std::size_t>(replicas)) == nullptr;
}

HloPart::HloPart(const GraphData& data, const HloOptions& options, std::size_t index)
    : data_(data),
      options_(options),
      index_(index),
      live_(data.values.size(), false),
      part_of_(data.values.size(), 0),
      by_host_(data.values.size(), false),
      read_(data.values.size(), false),
      hands_on_(data.values.size(), false) {
  find_live();
  cut();
  find_read();
}

bool HloPart::is_due(std::size_t minimized) const {
  return options_.phase != HloPhase::kAct && (options_.due.empty() || options_.due[minimized]);
}

template <typename F>
void HloPart::for_results(F f) const {
  if (options_.phase == HloPhase::kApply) return;
  const std::size_t last = cuts_.size();
  for (const NamedValue& output : data_.outputs) f(output.value, part_of_[output.value]);
  for (const NamedValue& metric : data_.metrics) f(metric.value, last);
  for (const auto& [to, value] : data_.assigns) f(value, last);
  for (std::size_t i = 0; i < data_.minimized.size(); ++i) {
    if (!is_due(i)) continue;
    for (const std::uint32_t id : data_.minimized[i].gradients) f(id, part_of_[id]);
  }
}

void HloPart::find_live() {
  for_results([this](std::uint32_t id, std::size_t) { live_[id] = true; });
  for (std::size_t index = data_.nodes.size(); index-- > 0;) {
    const Node& node = data_.nodes[index];
    if (!is_live(node)) continue;
    for (const std::uint32_t id : read_by(node)) live_[id] = true;
  }
}

/// A function's cut is not before those of the functions before it, so all keep their order.
void HloPart::cut() {
  std::size_t last = 0;
  for (const Node& node : data_.nodes) {
    if (!is_live(node)) continue;
    std::size_t part = 0;
    for (const std::uint32_t id : read_by(node)) part = std::max(part, part_of_[id]);
    if (calls_host(node)) {
      last = std::max(last, part);
      cuts_.resize(last + 1);
      cuts_[last].push_back({static_cast<std::size_t>(node.joint), node.inputs[0], node.outputs[0]});
      by_host_[node.outputs[0]] = true;
      part = last + 1;
    }
    for (const std::uint32_t id : node.outputs) part_of_[id] = part;
  }
}

void HloPart::find_read() {
  const auto use = [this](std::uint32_t id, std::size_t part) {
    if (part == index_) read_[id] = true;
    if (part > index_ && is_here(id) && is_made(id) && !by_host_[id]) hands_on_[id] = true;
  };
  for (const Node& node : data_.nodes) {
    if (!is_live(node) || calls_host(node)) continue;
    for (const std::uint32_t id : read_by(node)) use(id, part_of_[node.outputs[0]]);
  }
  for_results(use);
  for (const auto& calls : cuts_) {
    for (const HloCall& call : calls) {
      if (is_here(call.in) && !by_host_[call.in]) read_[call.in] = hands_on_[call.in] = true;
    }
  }
}

bool HloPart::is_live(const Node& node) const {
  return std::ranges::any_of(node.outputs, [this](std::uint32_t id) { return live_[id]; });
}

bool HloPart::calls_host(const Node& node) const {
  return node.op == nullptr &&
         learner::calls_host(data_.joints[static_cast<std::size_t>(node.joint)], options_.replicas);
}

std::vector<std::uint32_t> HloPart::read_by(const Node& node) const {
  std::vector<std::uint32_t> all = node.inputs;
  const std::int32_t of = node.joint < 0 ? -1 : data_.joints[static_cast<std::size_t>(node.joint)].gradient_of;
  if (of < 0 || calls_host(node)) return all;
  const Node& forward = data_.nodes[static_cast<std::size_t>(of)];
  all.insert(all.end(), {forward.inputs[0], forward.outputs[0]});
  return all;
}

}  // namespace troupe::learner
