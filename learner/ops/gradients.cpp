// Reverse mode, once, at build time. Cotangents have the dual place of their values: that of a replicated value is a
// partial sum (each stripe adds what its rows say), that of a partial sum is replicated, that of rows is rows. The
// rules of the ops keep this by themselves because they are linear in the cotangents; here only the start needs care.
#include <fmt/format.h>

#include <algorithm>

#include <troupe/learner/graph/graph.hpp>
#include <troupe/learner/graph/graph_data.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/internal.hpp>

namespace troupe::learner {

namespace {

Place dual(Place place) {
  switch (place) {
    case Place::kReplicated:
      return Place::kPartial;
    case Place::kPartial:
      return Place::kReplicated;
    case Place::kRows:
      return Place::kRows;
  }
  return place;
}

/// For each value: does it depend on one of `wrt`?
std::vector<bool> reached_from(const GraphData& data, std::span<const Var> wrt) {
  std::vector<bool> reached(data.values.size(), false);
  for (const Var value : wrt) reached[value.id] = true;
  for (const Node& node : data.nodes) {
    if (std::ranges::any_of(node.inputs, [&](std::uint32_t id) { return reached[id]; })) {
      for (const std::uint32_t id : node.outputs) reached[id] = true;
    }
  }
  return reached;
}

std::vector<Var> joint_vjp(Graph& graph, std::size_t node, const ValueSpec& input, Var out_grad) {
  GraphData& data = GraphAccess::data(graph);
  const Joint joint = data.joints[static_cast<std::size_t>(data.nodes[node].joint)];
  const ValueSpec whole{input.shape, DType::kF32, input.place == Place::kRows ? Place::kRows : Place::kReplicated};
  const Var made = graph.emit_joint(out_grad, joint.backward, joint.forward, &whole);
  if (made) data.joints.back().gradient_of = static_cast<std::int32_t>(node);
  return {made && input.place == Place::kReplicated ? as_partial(made) : made};
}

}  // namespace

std::vector<Var> Graph::gradients(Var loss, std::span<const Var> wrt) {
  std::vector<Var> result(wrt.size());
  if (!status_.ok()) return result;
  const ValueSpec loss_spec = spec(loss);
  if (loss_spec.shape.rank() != 0 || loss_spec.place == Place::kRows) {
    fail(Code::kShapeMismatch,
         fmt::format("gradients: loss of shape {}, expected a scalar; use mean()", loss_spec.shape.to_string()));
    return result;
  }
  const std::vector<bool> reached = reached_from(*data_, wrt);
  std::vector<Var> gradient(data_->values.size());
  const std::size_t nodes = data_->nodes.size();  // those that were there; more are appended meanwhile
  const Var one = constant({}, {1.0F});
  const auto device_of = [&](std::uint32_t id) {
    const Value& value = data_->values[id];
    return value.source == Source::kNode ? data_->nodes[static_cast<std::size_t>(value.index)].device : device_;
  };
  const DeviceScope at_loss(*this, device_of(loss.id));
  gradient[loss.id] = loss_spec.place == Place::kPartial ? one : as_partial(one);

  for (std::size_t index = nodes; index-- > 0;) {
    const Node node = data_->nodes[index];
    std::vector<Var> inputs, outputs, out_grads, collected;
    std::unique_ptr<bool[]> needs(new bool[node.inputs.size()]);
    bool has_grad = false, needed = false;
    for (const std::uint32_t id : node.outputs) {
      outputs.push_back({this, id});
      out_grads.push_back(gradient[id]);
      has_grad |= static_cast<bool>(gradient[id]);
    }
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      inputs.push_back({this, node.inputs[i]});
      collected.push_back(gradient[node.inputs[i]]);
      needs[i] = has_grad && reached[node.inputs[i]];
      needed |= needs[i];
    }
    if (!needed) continue;
    const DeviceScope at_node(*this, node.device);
    if (node.op != nullptr && node.op->vjp == nullptr) {
      fail(Code::kInvalidArgument,
           fmt::format("gradients: {} has no gradient; put stop_gradient() behind it", node.op->name));
      return result;
    }
    const std::vector<Var> input_grads =
        node.op == nullptr
            ? joint_vjp(*this, index, spec(inputs[0]), out_grads[0])
            : node.op->vjp({*this, inputs, outputs, out_grads, {needs.get(), inputs.size()}, node.attr, collected});
    for (std::size_t i = 0; i < inputs.size() && status_.ok(); ++i) {
      if (!needs[i] || i >= input_grads.size() || !input_grads[i]) continue;
      Var& sum = gradient[inputs[i].id];
      const ValueSpec& got = spec(input_grads[i]);
      const ValueSpec& of = spec(inputs[i]);
      if (got.shape != of.shape || got.place != dual(of.place)) {
        fail(Code::kShapeMismatch,
             fmt::format("gradients: {} gives operand {} of shape {} a gradient {} ({}), expected {}",
                         node.op == nullptr ? "joint" : node.op->name, i, of.shape.to_string(), got.shape.to_string(),
                         learner::to_string(got.place), learner::to_string(dual(of.place))));
        return result;
      }
      const bool whole = node.op != nullptr && (node.op->collects >> i & 1U) != 0;
      sum = sum && !whole ? add(sum, input_grads[i]) : input_grads[i];
    }
    if (!status_.ok()) return result;
  }
  for (std::size_t i = 0; i < wrt.size(); ++i) {
    result[i] = gradient[wrt[i].id];
    if (!result[i]) result[i] = fill(constant({}, {0.0F}), spec(wrt[i]).shape, dual(spec(wrt[i]).place));
  }
  return result;
}

void Graph::minimize(Var loss, ParamGroup group, const OptimizerSpec& optimizer) {
  if (!status_.ok()) return;
  const GroupDef& of = data_->groups[static_cast<std::size_t>(group.index)];
  if (of.online >= 0 || std::ranges::count(data_->minimized, group.index, &MinimizeDef::group) > 0) {
    fail(Code::kInvalidArgument,
         fmt::format("minimize \"{}\": {}", of.name,
                     of.online >= 0 ? "targets and averages follow another group" : "is minimized already"));
    return;
  }
  if (const Status valid = validate(optimizer); !valid.ok()) {
    fail(valid.error().code, fmt::format("minimize \"{}\": {}", of.name, valid.error().message));
    return;
  }
  std::vector<Var> wrt;
  for (std::size_t entry = 0; entry < of.layout.entries.size(); ++entry) {
    const std::int64_t id = entry < of.value.size() ? of.value[entry] : -1;
    if (id < 0) {
      fail(Code::kInvalidArgument,
           fmt::format("minimize \"{}\": only its target reads \"{}\"", of.name, of.layout.entries[entry].name));
      return;
    }
    wrt.push_back({this, static_cast<std::uint32_t>(id)});
  }
  MinimizeDef made{group.index, optimizer, {}};
  for (const Var gradient : gradients(loss, wrt)) made.gradients.push_back(gradient.id);
  if (status_.ok()) data_->minimized.push_back(std::move(made));
}

}  // namespace troupe::learner
