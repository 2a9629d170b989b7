#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include <troupe/learner/graph/graph_data.hpp>
#include <troupe/learner/ops/joint.hpp>
#include <troupe/learner/ops/shaping.hpp>
#include <troupe/learner/replicate/replica.hpp>
#include <troupe/learner/replicate/step_collectives.hpp>

namespace troupe::learner {

using collectives::CallOptions;
using collectives::ReduceOp;

namespace {

/// The value itself, whole on every stripe.
Var whole(Var x) { return x.graph->spec(x).place == Place::kPartial ? sum_stripes(x) : x; }

Var unknown_op(Graph& graph, std::string_view call, ReduceOp op) {
  return graph.fail(Code::kInvalidArgument, fmt::format("{}: {} is not available in a step", call, to_string(op)));
}

std::size_t parameters(const Graph& graph) {
  std::size_t count = 0;
  for (const GroupDef& group : GraphAccess::data(graph).groups) count += group.layout.entries.size();
  return count;
}

}  // namespace

ReplicaContext::ReplicaContext(Graph& graph, const InputContext& input, collectives::Communicator* communicator)
    : graph_(graph), input_(input), communicator_(input.replica_count > 1 ? communicator : nullptr) {
  graph.set_first_row(input.replica_id * input.global_batch / input.replica_count);
}

Meeting ReplicaContext::meeting(std::string_view kind, std::string_view name) {
  Meeting made{.communicator = communicator_};
  if (communicator_ != nullptr) {
    made.replicas = static_cast<std::size_t>(input_.replica_count);
    made.rank = static_cast<std::size_t>(input_.replica_id);
    made.per_row = static_cast<double>(input_.replica_count) / static_cast<double>(input_.global_batch);
  }
  made.name = name.empty() ? fmt::format("step/{}/{}", kind, calls_) : std::string(name);
  ++calls_;
  return made;
}

bool ReplicaContext::can_meet(std::string_view call, std::string_view name) {
  if (meets()) return true;
  graph_.fail(Code::kInvalidArgument,
              fmt::format("step_fn: {}{}: the {} workers of a parameter server do not meet within a step, expected one "
                          "without collectives",
                          call, name.empty() ? "" : fmt::format(" \"{}\"", name), input_.replica_count));
  return false;
}

Var ReplicaContext::all_reduce(Var x, ReduceOp op, std::string_view name) {
  if (!x) return x;
  if (op == ReduceOp::kProduct) return unknown_op(graph_, "all_reduce", op);
  if (!can_meet(fmt::format("all_{}", to_string(op)), name)) return {};
  if (communicator_ == nullptr) return whole(x);
  const StepCollective made = learner::all_reduce(meeting("all_reduce", name), op);
  return joint(x, made.forward, made.backward);
}

Var ReplicaContext::all_gather(Var x, std::string_view name) {
  if (!x || !can_meet("all_gather", name)) return {};
  const ValueSpec spec = graph_.spec(x);
  const bool rows = spec.place == Place::kRows;
  const Shape shape = spec.shape.with_leading(input_.replica_count);
  if (communicator_ == nullptr && !rows) return reshape(whole(x), shape);
  const auto row = static_cast<std::size_t>(rows ? spec.shape.elements() / graph_.batch() : 0);
  const StepCollective made = learner::all_gather(meeting("all_gather", name), row);
  return joint(x, shape, made.forward, made.backward);
}

Var ReplicaContext::reduce_scatter(Var x, ReduceOp op, std::string_view name) {
  if (!x) return x;
  if (op != ReduceOp::kSum && op != ReduceOp::kMean) return unknown_op(graph_, "reduce_scatter", op);
  if (!can_meet("reduce_scatter", name)) return {};
  const ValueSpec spec = graph_.spec(x);
  if (spec.place == Place::kRows || spec.shape.rank() == 0 || spec.shape[0] != input_.replica_count) {
    return graph_.fail(Code::kShapeMismatch,
                       fmt::format("reduce_scatter: {} value {}, expected [{}, ...], not by rows",
                                   to_string(spec.place), spec.shape.to_string(), input_.replica_count));
  }
  const Shape shape(spec.shape.dims().subspan(1));
  if (communicator_ == nullptr) return reshape(whole(x), shape);
  const StepCollective made = learner::reduce_scatter(meeting("reduce_scatter", name), op);
  return joint(x, shape, made.forward, made.backward);
}

Var ReplicaContext::broadcast(Var x, int root, std::string_view name) {
  if (!x || !can_meet("broadcast", name)) return {};
  if (root < 0 || root >= input_.replica_count) {
    return graph_.fail(Code::kOutOfRange, fmt::format("broadcast: root {} of {} replicas", root, input_.replica_count));
  }
  if (communicator_ == nullptr) return whole(x);
  const StepCollective made = learner::broadcast(meeting("broadcast", name), root);
  return joint(x, made.forward, made.backward);
}

Var ReplicaContext::map_gather(std::span<const Var> items, const std::function<Var(Var)>& fn, std::string_view name) {
  return map(items, fn, nullptr, name);
}

Var ReplicaContext::map_reduce(std::span<const Var> items, const std::function<Var(Var)>& fn, ReduceOp op,
                               std::string_view name) {
  return op == ReduceOp::kProduct ? unknown_op(graph_, "map_reduce", op) : map(items, fn, &op, name);
}

Var ReplicaContext::map(std::span<const Var> items, const std::function<Var(Var)>& fn, const ReduceOp* reduce_op,
                        std::string_view name) {
  if (items.empty()) return graph_.fail(Code::kInvalidArgument, "map: no items");
  if (!can_meet(reduce_op == nullptr ? "map_gather" : "map_reduce", name)) return {};
  const Meeting how = meeting("map", name);
  const std::size_t count = items.size(), replicas = how.replicas, slots = (count + replicas - 1) / replicas;
  const std::size_t before = parameters(graph_);
  std::vector<Var> results;
  for (std::size_t i = how.rank; i < count; i += replicas) results.push_back(fn(items[i]));
  const bool idle = results.empty();
  if (idle) results.push_back(fn(items[0]));  // for its shape only
  if (parameters(graph_) != before) {
    return graph_.fail(Code::kInvalidArgument, "map: its function made a parameter; make it before");
  }
  for (const Var result : results) {
    if (!result) return {};
    const ValueSpec& spec = graph_.spec(result);
    if (spec.place == Place::kRows || spec.shape != graph_.spec(results[0]).shape) {
      return graph_.fail(Code::kShapeMismatch, fmt::format("map: {} result {}, expected one shape, not split by rows",
                                                           to_string(spec.place), spec.shape.to_string()));
    }
  }
  const Shape shape = graph_.spec(results[0]).shape;
  const auto elements = static_cast<std::size_t>(shape.elements());
  const Shape flat{1, shape.elements()};
  if (idle) results.clear();
  Var stacked;
  for (std::size_t slot = 0; slot < slots; ++slot) {
    const Var next = slot < results.size() ? reshape(whole(results[slot]), flat)
                                           : graph_.constant(flat, std::vector<float>(elements));
    stacked = stacked ? concat(stacked, next) : next;
  }
  const MapShape map{count, slots, elements};
  if (reduce_op != nullptr) {
    const StepCollective made = learner::map_reduce(how, map, *reduce_op);
    return joint(stacked, shape, made.forward, made.backward);
  }
  const StepCollective made = learner::map_gather(how, map);
  return joint(stacked, shape.with_leading(static_cast<std::int64_t>(count)), made.forward, made.backward);
}

/// Null, after the graph has failed, for what is neither a parameter nor state.
ParamEntry* ReplicaContext::entry(Var variable) {
  if (!variable || !graph_.status().ok()) return nullptr;
  GraphData& data = GraphAccess::data(graph_);
  const Value& value = data.values[variable.id];
  const auto index = static_cast<std::size_t>(value.entry);
  if (value.source == Source::kState) return &data.state.layout.entries[index];
  if (value.source == Source::kParam) {
    const GroupDef& own = data.groups[static_cast<std::size_t>(value.index)];
    GroupDef& online = data.groups[static_cast<std::size_t>(own.online < 0 ? value.index : own.online)];
    return &online.layout.entries[index];
  }
  graph_.fail(Code::kInvalidArgument, "policy: expected a parameter or replica state");
  return nullptr;
}

void ReplicaContext::set_policy(Var variable, VariablePolicy policy) {
  if (ParamEntry* const of = entry(variable)) of->policy = policy;
}

void ReplicaContext::set_policy(ParamGroup group, VariablePolicy policy) {
  if (!graph_.status().ok()) return;
  GroupDef& def = GraphAccess::data(graph_).groups[static_cast<std::size_t>(group.index)];
  for (ParamEntry& entry : def.layout.entries) entry.policy = policy;
}

void ReplicaContext::assign(Var state, Var value) {
  const ParamEntry* const of = entry(state);
  if (of == nullptr || !value) return;
  graph_.assign(state, of->policy == VariablePolicy::kSync ? all_mean(value, of->name) : whole(value));
}

OptimizerSpec ReplicaContext::wrap_optimizer(OptimizerSpec optimizer) {
  if (communicator_ == nullptr || leave_gradients_) return optimizer;
  optimizer.reduce = [communicator = communicator_, wire = wire_](const GradientPart& part) {
    const CallOptions options{
        .name = fmt::format("gradient/{}", part.name), .weight = static_cast<double>(part.rows), .wire = wire};
    collectives::Communicator& group = part.gpu < 0 ? communicator->host() : *communicator;
    return group.all_reduce(part.values, ReduceOp::kMean, options)->wait();
  };
  // Between GPUs values are float32; rounded they travel from host to host.
  if (wire_ == DType::kF32) optimizer.reduce_gpu = [communicator = communicator_] { return communicator->device(); };
  return optimizer;
}

}  // namespace troupe::learner
