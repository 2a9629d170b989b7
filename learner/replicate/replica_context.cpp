// The collectives inside of a step, forward and backward. With f_i = w_i up to a factor that all replicas share, a
// collective y = c(x) needs dx_i = sum_j f_j dy_j (dy_j / dx_i) / f_i, so that the weighted mean of the replicas'
// gradients is the gradient of the weighted mean of their losses. Sums, means, broadcasts and what gathers whole values
// stay on the GPUs of a group whose values are there; what the function computes with others' values or with parts of
// its own, it does on the host. Which of both, depends on nothing that differs between ranks.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include <troupe/learner/engine/tree_sum.hpp>
#include <troupe/learner/graph/graph_data.hpp>
#include <troupe/learner/ops/joint.hpp>
#include <troupe/learner/ops/shaping.hpp>
#include <troupe/learner/replicate/replica.hpp>

namespace troupe::learner {

using collectives::CallOptions;
using collectives::ReduceOp;

/// One collective of a step as this replica makes it.
struct ReplicaContext::Exchange {
  collectives::Communicator* communicator;  // null: alone
  std::size_t replicas = 1;
  std::size_t rank = 0;
  double per_row = 1;  // equal shares have f = 1, so that they scale nothing
  std::string name;
  // Of the last forward pass: where this replica holds the extremum (1) and where not (0).
  std::vector<float> held;
  std::vector<float> scratch;

  float factor(const JointArgs& args) const { return static_cast<float>(static_cast<double>(args.rows) * per_row); }
  CallOptions options(const JointArgs& args, std::string_view suffix) const {
    return {.name = name + std::string(suffix), .weight = static_cast<double>(args.rows)};
  }

  /// Which GPU's memory the functions of joints may work in now: that of the group's values, if these are on one.
  std::function<int()> gpu() const {
    return [group = communicator] { return group->device(); };
  }
  /// The group for values that lie where those of `args` do, once they are there.
  Result<collectives::Communicator*> group(const JointArgs& args) const {
    TROUPE_TRY(args.memory->wait());
    return args.memory->gpu() < 0 ? &communicator->host() : communicator;
  }
  Status all_reduce(std::span<float> values, ReduceOp op, const JointArgs& args, std::string_view suffix) const {
    TROUPE_ASSIGN(collectives::Communicator* const ranks, group(args));
    return ranks->all_reduce(values, op, options(args, suffix))->wait();
  }

  /// values becomes sum_j f_j values_j / f_i; of a replica without weight, zero.
  Status weigh(std::span<float> values, const JointArgs& args) {
    if (communicator == nullptr) return {};
    const float f = factor(args);
    if (f != 1) TROUPE_TRY(args.memory->scale(values, f));
    TROUPE_TRY(all_reduce(values, ReduceOp::kSum, args, "/gradient"));
    return f == 1 ? Status() : args.memory->scale(values, f == 0 ? 0 : 1 / f);
  }
  Status weigh_into_out(const JointArgs& args) {
    TROUPE_TRY(args.memory->copy(args.in, args.out));
    return weigh(args.out, args);
  }

  /// Of the sum or weighted mean.
  Status reduce(const JointArgs& args, ReduceOp op, std::string_view suffix) {
    TROUPE_TRY(args.memory->copy(args.in, args.out));
    return all_reduce(args.out, op, args, suffix);
  }
  Status extremum(const JointArgs& args, ReduceOp op) {
    std::ranges::copy(args.in, args.out.begin());
    if (args.rows == 0) {
      const float never = std::numeric_limits<float>::infinity() * (op == ReduceOp::kMax ? -1.0F : 1.0F);
      std::ranges::fill(args.out, never);
    }
    TROUPE_TRY(all_reduce(args.out, op, args, ""));
    held.resize(args.in.size());
    for (std::size_t i = 0; i < held.size(); ++i) held[i] = args.rows > 0 && args.in[i] == args.out[i] ? 1 : 0;
    return {};
  }
  Status extremum_gradient(const JointArgs& args) {
    const std::size_t n = args.in.size();
    const float f = factor(args);
    scratch.assign(held.begin(), held.end());  // then summed: how many hold it
    for (const float dy : args.in) scratch.push_back(f == 0 ? 0 : f * dy);
    TROUPE_TRY(all_reduce(scratch, ReduceOp::kSum, args, "/gradient"));
    for (std::size_t i = 0; i < n; ++i) args.out[i] = held[i] == 0 ? 0 : scratch[n + i] / (scratch[i] * f);
    return {};
  }

  Status gather(const JointArgs& args, std::size_t data) {
    std::span<const float> in = args.in;
    if (data < in.size()) {
      scratch.assign(in.begin(), in.end());
      std::fill(scratch.begin() + static_cast<std::ptrdiff_t>(data), scratch.end(), 0.0F);
      in = scratch;
    }
    if (communicator == nullptr) {
      std::ranges::copy(in, args.out.begin());
      return {};
    }
    TROUPE_ASSIGN(collectives::Communicator* const ranks, group(args));
    return ranks->all_gather(in, args.out, options(args, ""))->wait();
  }
  /// From gradients of [replicas, n] to this replica's row.
  Status scatter_gradient(std::span<const float> in, std::span<float> out, const JointArgs& args) {
    if (communicator == nullptr) {
      std::ranges::copy(in, out.begin());
      return {};
    }
    const float f = factor(args);
    std::vector<float> weighted(in.begin(), in.end());
    for (float& x : weighted) x = f == 0 ? 0 : f * x;
    TROUPE_ASSIGN(collectives::Communicator* const ranks, group(args));
    TROUPE_TRY(ranks->reduce_scatter(weighted, out, ReduceOp::kSum, options(args, "/gradient"))->wait());
    for (float& x : out) x = f == 0 ? 0 : x / f;
    return {};
  }

  Status scatter(const JointArgs& args, ReduceOp op) {
    TROUPE_ASSIGN(collectives::Communicator* const ranks, group(args));
    return ranks->reduce_scatter(args.in, args.out, op, options(args, ""))->wait();
  }
  Status gather_gradient(const JointArgs& args, ReduceOp op) {
    const std::size_t n = args.in.size();
    const float own = factor(args);
    scratch.assign(args.in.begin(), args.in.end());
    scratch.push_back(own);
    std::vector<float> all(replicas * (n + 1));
    TROUPE_ASSIGN(collectives::Communicator* const ranks, group(args));
    TROUPE_TRY(ranks->all_gather(scratch, all, options(args, "/gradient"))->wait());
    const float total = tree_sum(0, replicas, [&](std::size_t r) { return all[r * (n + 1) + n]; });
    const float divisor = op == ReduceOp::kMean ? total : own;
    for (std::size_t r = 0; r < replicas; ++r) {
      const float* const row = all.data() + r * (n + 1);
      for (std::size_t i = 0; i < n; ++i) args.out[r * n + i] = divisor == 0 ? 0 : row[n] * row[i] / divisor;
    }
    return {};
  }
};

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

std::shared_ptr<ReplicaContext::Exchange> ReplicaContext::exchange(std::string_view kind, std::string_view name) {
  auto made = std::make_shared<Exchange>();
  made->communicator = communicator_;
  if (communicator_ != nullptr) {
    made->replicas = static_cast<std::size_t>(input_.replica_count);
    made->rank = static_cast<std::size_t>(input_.replica_id);
    made->per_row = static_cast<double>(input_.replica_count) / static_cast<double>(input_.global_batch);
  }
  made->name = name.empty() ? fmt::format("step/{}/{}", kind, calls_) : std::string(name);
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
  const auto call = exchange("all_reduce", name);
  if (op == ReduceOp::kMin || op == ReduceOp::kMax) {
    return joint(
        x, [call, op](const JointArgs& args) { return call->extremum(args, op); },
        [call](const JointArgs& args) { return call->extremum_gradient(args); });
  }
  const JointFn forward([call, op](const JointArgs& args) { return call->reduce(args, op, ""); }, call->gpu());
  if (op == ReduceOp::kSum) {
    return joint(x, forward, {[call](const JointArgs& args) { return call->weigh_into_out(args); }, call->gpu()});
  }
  return joint(
      x, forward,
      {[call](const JointArgs& args) { return call->reduce(args, ReduceOp::kMean, "/gradient"); }, call->gpu()});
}

Var ReplicaContext::all_gather(Var x, std::string_view name) {
  if (!x || !can_meet("all_gather", name)) return {};
  const ValueSpec spec = graph_.spec(x);
  const bool rows = spec.place == Place::kRows;
  const Shape shape = spec.shape.with_leading(input_.replica_count);
  if (communicator_ == nullptr && !rows) return reshape(whole(x), shape);
  const auto call = exchange("all_gather", name);
  const auto row = static_cast<std::size_t>(rows ? spec.shape.elements() / graph_.batch() : 0);
  const auto data = [row](const JointArgs& args, std::size_t all) {
    return row == 0 ? all : row * static_cast<std::size_t>(args.rows);
  };
  // Of rows, those that are no data are left out on the way, for which the host has the memory.
  const auto gather = [=](const JointArgs& args) { return call->gather(args, data(args, args.in.size())); };
  return joint(x, shape, rows || communicator_ == nullptr ? JointFn(gather) : JointFn(gather, call->gpu()),
               [=](const JointArgs& args) -> Status {
                 TROUPE_TRY(call->scatter_gradient(args.in, args.out, args));
                 std::ranges::fill(args.out.subspan(data(args, args.out.size())), 0.0F);
                 return {};
               });
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
  const auto call = exchange("reduce_scatter", name);
  return joint(
      x, shape, [call, op](const JointArgs& args) { return call->scatter(args, op); },
      [call, op](const JointArgs& args) { return call->gather_gradient(args, op); });
}

Var ReplicaContext::broadcast(Var x, int root, std::string_view name) {
  if (!x || !can_meet("broadcast", name)) return {};
  if (root < 0 || root >= input_.replica_count) {
    return graph_.fail(Code::kOutOfRange, fmt::format("broadcast: root {} of {} replicas", root, input_.replica_count));
  }
  if (communicator_ == nullptr) return whole(x);
  const auto call = exchange("broadcast", name);
  JointFn forward(
      [call, root](const JointArgs& args) -> Status {
        TROUPE_TRY(args.memory->copy(args.in, args.out));
        TROUPE_ASSIGN(collectives::Communicator* const ranks, call->group(args));
        return ranks->broadcast(args.out, root, call->options(args, ""))->wait();
      },
      call->gpu());
  JointFn backward(
      [call, root](const JointArgs& args) -> Status {
        TROUPE_TRY(call->weigh_into_out(args));
        return call->rank == static_cast<std::size_t>(root) ? Status() : args.memory->scale(args.out, 0);
      },
      call->gpu());
  return joint(x, std::move(forward), std::move(backward));
}

Var ReplicaContext::map_gather(std::span<const Var> items, const std::function<Var(Var)>& fn, std::string_view name) {
  return map(items, fn, nullptr, name);
}

Var ReplicaContext::map_reduce(std::span<const Var> items, const std::function<Var(Var)>& fn, ReduceOp op,
                               std::string_view name) {
  return op == ReduceOp::kProduct ? unknown_op(graph_, "map_reduce", op) : map(items, fn, &op, name);
}

/// What becomes of the results of a map. Own ones, filled up with zeros, lie behind each other, [slots, elements];
/// gathered, item i is at [i mod replicas, i / replicas].
struct ReplicaContext::Mapped {
  std::shared_ptr<Exchange> call;
  std::size_t count = 0;  // items
  std::size_t slots = 0;  // of a replica
  std::size_t elements = 0;

  std::size_t at(std::size_t item) const { return (item % call->replicas * slots + item / call->replicas) * elements; }
  /// All results, into call->scratch.
  Status meet(const JointArgs& args) const {
    call->scratch.resize(call->replicas * slots * elements);
    if (call->communicator == nullptr) {
      std::ranges::copy(args.in, call->scratch.begin());
      return {};
    }
    TROUPE_ASSIGN(collectives::Communicator* const ranks, call->group(args));
    return ranks->all_gather(args.in, call->scratch, call->options(args, ""))->wait();
  }

  Status gather(const JointArgs& args) const {
    TROUPE_TRY(meet(args));
    for (std::size_t i = 0; i < count; ++i) {
      std::copy_n(call->scratch.data() + at(i), elements, args.out.data() + i * elements);
    }
    return {};
  }
  Status gather_gradient(const JointArgs& args) const {
    std::vector<float> gradients(call->replicas * slots * elements);
    for (std::size_t i = 0; i < count; ++i) {
      std::copy_n(args.in.data() + i * elements, elements, gradients.data() + at(i));
    }
    return call->scatter_gradient(gradients, args.out, args);
  }

  /// call->held becomes d result / d item for each of the own slots, [slots, elements].
  Status reduce(const JointArgs& args, ReduceOp op) const {
    TROUPE_TRY(meet(args));
    call->held.assign(slots * elements, 0);
    const bool all = op == ReduceOp::kSum || op == ReduceOp::kMean;
    for (std::size_t e = 0; e < elements; ++e) {
      const auto value = [&](std::size_t i) { return call->scratch[at(i) + e]; };
      float result = 0, ties = 1;
      if (all) {
        ties = op == ReduceOp::kMean ? static_cast<float>(count) : 1;
        result = tree_sum(0, count, value) / ties;
      } else {
        result = value(0);
        for (std::size_t i = 1; i < count; ++i) {
          const float x = value(i);
          if (x != x || (op == ReduceOp::kMax ? x > result : x < result)) result = x;
        }
        ties = 0;
        for (std::size_t i = 0; i < count; ++i) ties += value(i) == result ? 1.0F : 0.0F;
      }
      args.out[e] = result;
      for (std::size_t i = call->rank; i < count; i += call->replicas) {
        if (all || value(i) == result) call->held[i / call->replicas * elements + e] = 1 / ties;
      }
    }
    return {};
  }
  Status reduce_gradient(const JointArgs& args) const {
    std::vector<float> dy(args.in.begin(), args.in.end());
    TROUPE_TRY(call->weigh(dy, args));
    for (std::size_t i = 0; i < args.out.size(); ++i) args.out[i] = call->held[i] * dy[i % elements];
    return {};
  }
};

Var ReplicaContext::map(std::span<const Var> items, const std::function<Var(Var)>& fn, const ReduceOp* reduce_op,
                        std::string_view name) {
  if (items.empty()) return graph_.fail(Code::kInvalidArgument, "map: no items");
  if (!can_meet(reduce_op == nullptr ? "map_gather" : "map_reduce", name)) return {};
  const auto call = exchange("map", name);
  const std::size_t count = items.size(), replicas = call->replicas, slots = (count + replicas - 1) / replicas;
  const std::size_t before = parameters(graph_);
  std::vector<Var> results;
  for (std::size_t i = call->rank; i < count; i += replicas) results.push_back(fn(items[i]));
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
  const Mapped mapped{call, count, slots, elements};
  if (reduce_op == nullptr) {
    return joint(
        stacked, shape.with_leading(static_cast<std::int64_t>(count)),
        [mapped](const JointArgs& args) { return mapped.gather(args); },
        [mapped](const JointArgs& args) { return mapped.gather_gradient(args); });
  }
  return joint(
      stacked, shape, [mapped, op = *reduce_op](const JointArgs& args) { return mapped.reduce(args, op); },
      [mapped](const JointArgs& args) { return mapped.reduce_gradient(args); });
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
