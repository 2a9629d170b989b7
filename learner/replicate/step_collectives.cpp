#include <troupe/learner/replicate/step_collectives.hpp>

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include <troupe/learner/engine/tree_sum.hpp>
#include <troupe/learner/ops/hlo_parts.hpp>

namespace troupe::learner {

using collectives::CallOptions;
using collectives::ReduceOp;

namespace {

/// What the functions of a collective have in common at run time.
struct Exchange : Meeting {
  explicit Exchange(const Meeting& meeting) : Meeting(meeting) {}

  // Of the last forward pass: where this replica holds the extremum (1) and where not (0).
  std::vector<float> held;
  // What is sent, in the memory of the values that it is made of.
  struct Room {
    std::shared_ptr<float[]> values;
    std::size_t size = 0;
    int gpu = -1;
  } sent;

  float factor(const JointArgs& args) const { return static_cast<float>(static_cast<double>(args.rows) * per_row); }
  /// Of all replicas.
  Result<float> sum_of_factors(const JointArgs& args) const {
    TROUPE_ASSIGN(const auto rows, communicator->gather_integers({&args.rows, 1}, {.name = name + "/rows"}));
    return static_cast<float>(per_row *
                              static_cast<double>(std::accumulate(rows.begin(), rows.end(), std::int64_t{0})));
  }
  CallOptions options(const JointArgs& args, std::string_view suffix) const {
    return {.name = name + std::string(suffix), .weight = static_cast<double>(args.rows)};
  }
  /// Which GPU's memory the functions of joints may work in now: that of the group's values, if these are on one.
  std::function<int()> gpu() const {
    return [group = communicator] { return group == nullptr ? -1 : group->device(); };
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
  Status weigh(std::span<float> values, const JointArgs& args) const {
    if (communicator == nullptr) return {};
    const float f = factor(args);
    if (f != 1) TROUPE_TRY(args.memory->scale(values, f));
    TROUPE_TRY(all_reduce(values, ReduceOp::kSum, args, "/gradient"));
    return f == 1 ? Status() : args.memory->scale(values, f == 0 ? 0 : 1 / f);
  }
  Status weigh_into_out(const JointArgs& args) const {
    TROUPE_TRY(args.memory->copy(args.in, args.out));
    return weigh(args.out, args);
  }
  Status reduce_into_out(const JointArgs& args, ReduceOp op, std::string_view suffix) const {
    TROUPE_TRY(args.memory->copy(args.in, args.out));
    return all_reduce(args.out, op, args, suffix);
  }
  /// So many values to send, the same at each call: of which nothing is known, or a copy.
  Result<std::span<float>> room(std::size_t size, const JointArgs& args) {
    if (sent.size != size || sent.gpu != args.memory->gpu()) {
      sent = {};
      TROUPE_ASSIGN(sent.values, args.memory->allocate(size));
      sent.size = size;
      sent.gpu = args.memory->gpu();
    }
    return std::span(sent.values.get(), size);
  }
  Result<std::span<float>> copied(std::span<const float> in, const JointArgs& args) {
    TROUPE_ASSIGN(const std::span<float> copy, room(in.size(), args));
    TROUPE_TRY(args.memory->copy(in, copy));
    return copy;
  }
  /// From gradients of [replicas, n], which are spoilt, to this replica's row.
  Status scatter_gradient(std::span<float> gradients, std::span<float> out, const JointArgs& args) const {
    if (communicator == nullptr) return args.memory->copy(gradients, out);
    const float f = factor(args);
    if (f != 1) TROUPE_TRY(args.memory->scale(gradients, f));
    TROUPE_ASSIGN(collectives::Communicator* const ranks, group(args));
    TROUPE_TRY(ranks->reduce_scatter(gradients, out, ReduceOp::kSum, options(args, "/gradient"))->wait());
    return f == 1 ? Status() : args.memory->scale(out, f == 0 ? 0 : 1 / f);
  }

  // ---- in StableHLO ----

  std::int64_t count() const { return static_cast<std::int64_t>(replicas); }
  /// f_i, a scalar.
  hlo::Value factor(const hlo::Joint& of) const { return per_row * convert(of.rows, hlo::Element::kF32); }
  static hlo::Value divided(const hlo::Value& x, const hlo::Value& by) {
    const hlo::Value all = hlo::everywhere(by, x.shape());
    return select(is_greater(all, 0), x / all, 0);
  }
  hlo::Value weighed(const hlo::Joint& of, const hlo::Value& x) const {
    const hlo::Value f = factor(of);
    return divided(sum_of_replicas(hlo::weighted(f, x), count()), f);
  }
  /// By which the replica's values are multiplied in a mean.
  hlo::Value share(const hlo::Joint& of) const {
    const hlo::Value f = factor(of);
    return divided(f, sum_of_replicas(f, count()));
  }
  hlo::Value scattered_gradient(const hlo::Joint& of) const {
    const hlo::Value f = factor(of);
    return divided(row_of_sum(hlo::weighted(f, of.in), count()), f);
  }
  /// Zero in the rows that are no data.
  static hlo::Value data_of(const hlo::Joint& of, const hlo::Value& x, bool by_rows) {
    if (!by_rows) return x;
    const hlo::Type rows{x.shape(), hlo::Element::kI32};
    const hlo::Value end = static_cast<double>(x.size(0) / of.batch) * of.rows;
    return select(is_less(of.in.to->iota(rows, 0), hlo::everywhere(end, x.shape())), x, 0);
  }
};

// ---- reductions ----

StepCollective extremum(const std::shared_ptr<Exchange>& call, ReduceOp op) {
  const float never = std::numeric_limits<float>::infinity() * (op == ReduceOp::kMax ? -1.0F : 1.0F);
  JointFn forward([=](const JointArgs& args) -> Status {
    std::ranges::copy(args.in, args.out.begin());
    if (args.rows == 0) std::ranges::fill(args.out, never);
    TROUPE_TRY(call->all_reduce(args.out, op, args, ""));
    call->held.resize(args.in.size());
    for (std::size_t i = 0; i < args.in.size(); ++i) {
      call->held[i] = args.rows > 0 && args.in[i] == args.out[i] ? 1 : 0;
    }
    return {};
  });
  JointFn backward([=](const JointArgs& args) -> Status {
    const std::size_t n = args.in.size();
    const float f = call->factor(args);
    TROUPE_ASSIGN(const std::span<float> sums, call->room(2 * n, args));
    std::ranges::copy(call->held, sums.begin());  // then summed: how many hold it
    std::ranges::transform(args.in, sums.begin() + static_cast<std::ptrdiff_t>(n),
                           [f](float dy) { return f == 0 ? 0 : f * dy; });
    TROUPE_TRY(call->all_reduce(sums, ReduceOp::kSum, args, "/gradient"));
    for (std::size_t i = 0; i < n; ++i) args.out[i] = call->held[i] == 0 ? 0 : sums[n + i] / (sums[i] * f);
    return {};
  });
  const auto has_rows = [](const hlo::Joint& of, const hlo::Value& like) {
    return hlo::everywhere(is_greater(of.rows, 0), like.shape());
  };
  forward.with_rule(call->replicas, [=](const hlo::Joint& of) {
    const hlo::Value own = select(has_rows(of, of.in), of.in, never);
    return op == ReduceOp::kMax ? largest_of_replicas(own, call->count()) : least_of_replicas(own, call->count());
  });
  backward.with_rule(call->replicas, [=](const hlo::Joint& of) {
    const hlo::Value held = is_equal(of.taken, of.given) & has_rows(of, of.in);
    const hlo::Value ties = sum_of_replicas(convert(held, hlo::Element::kF32), call->count());
    return select(held, call->weighed(of, of.in) / ties, 0);
  });
  return {forward, backward};
}

}  // namespace

StepCollective all_reduce(const Meeting& meeting, ReduceOp op) {
  const auto call = std::make_shared<Exchange>(meeting);
  if (op == ReduceOp::kMin || op == ReduceOp::kMax) return extremum(call, op);
  const auto mean_rule = [=](const hlo::Joint& of) {
    return sum_of_replicas(hlo::weighted(call->share(of), of.in), call->count());
  };
  JointFn forward([=](const JointArgs& args) { return call->reduce_into_out(args, op, ""); }, call->gpu());
  if (op == ReduceOp::kMean) {
    JointFn backward([=](const JointArgs& args) { return call->reduce_into_out(args, op, "/gradient"); }, call->gpu());
    return {forward.with_rule(call->replicas, mean_rule), backward.with_rule(call->replicas, mean_rule)};
  }
  JointFn backward([=](const JointArgs& args) { return call->weigh_into_out(args); }, call->gpu());
  return {
      forward.with_rule(call->replicas, [=](const hlo::Joint& of) { return sum_of_replicas(of.in, call->count()); }),
      backward.with_rule(call->replicas, [=](const hlo::Joint& of) { return call->weighed(of, of.in); })};
}

StepCollective broadcast(const Meeting& meeting, int root) {
  const auto call = std::make_shared<Exchange>(meeting);
  JointFn forward(
      [=](const JointArgs& args) -> Status {
        TROUPE_TRY(args.memory->copy(args.in, args.out));
        TROUPE_ASSIGN(collectives::Communicator* const ranks, call->group(args));
        return ranks->broadcast(args.out, root, call->options(args, ""))->wait();
      },
      call->gpu());
  JointFn backward(
      [=](const JointArgs& args) -> Status {
        TROUPE_TRY(call->weigh_into_out(args));
        return call->rank == static_cast<std::size_t>(root) ? Status() : args.memory->scale(args.out, 0);
      },
      call->gpu());
  const auto at_root = [=](const hlo::Value& x) {
    return select(hlo::everywhere(is_equal(replica_number(*x.to), root), x.shape()), x, 0);
  };
  forward.with_rule(call->replicas,
                    [=](const hlo::Joint& of) { return sum_of_replicas(at_root(of.in), call->count()); });
  backward.with_rule(call->replicas, [=](const hlo::Joint& of) { return at_root(call->weighed(of, of.in)); });
  return {forward, backward};
}

// ---- what gathers and scatters ----

StepCollective all_gather(const Meeting& meeting, std::size_t row) {
  const auto call = std::make_shared<Exchange>(meeting);
  // Of rows, those that are no data, which are zero on both ways.
  const auto rest = [row](auto values, const JointArgs& args) {
    return values.subspan(row == 0 ? values.size() : row * static_cast<std::size_t>(args.rows));
  };
  JointFn forward(
      [=](const JointArgs& args) -> Status {
        std::span<const float> in = args.in;
        if (!rest(in, args).empty()) {
          TROUPE_ASSIGN(const std::span<float> cleared, call->copied(in, args));
          TROUPE_TRY(args.memory->scale(rest(cleared, args), 0));
          in = cleared;
        }
        if (call->communicator == nullptr) return args.memory->copy(in, args.out);
        TROUPE_ASSIGN(collectives::Communicator* const ranks, call->group(args));
        return ranks->all_gather(in, args.out, call->options(args, ""))->wait();
      },
      call->gpu());
  JointFn backward(
      [=](const JointArgs& args) -> Status {
        TROUPE_ASSIGN(const std::span<float> gradients, call->copied(args.in, args));
        TROUPE_TRY(call->scatter_gradient(gradients, args.out, args));
        return rest(args.out, args).empty() ? Status() : args.memory->scale(rest(args.out, args), 0);
      },
      call->gpu());
  forward.with_rule(call->replicas, [=](const hlo::Joint& of) {
    return rows_of_replicas(Exchange::data_of(of, of.in, row > 0), call->count());
  });
  backward.with_rule(call->replicas, [=](const hlo::Joint& of) {
    return Exchange::data_of(of, call->scattered_gradient(of), row > 0);
  });
  return {forward, backward};
}

StepCollective reduce_scatter(const Meeting& meeting, ReduceOp op) {
  const auto call = std::make_shared<Exchange>(meeting);
  JointFn forward(
      [=](const JointArgs& args) -> Status {
        TROUPE_ASSIGN(collectives::Communicator* const ranks, call->group(args));
        return ranks->reduce_scatter(args.in, args.out, op, call->options(args, ""))->wait();
      },
      call->gpu());
  JointFn backward(
      [=](const JointArgs& args) -> Status {
        const float own = call->factor(args);
        TROUPE_ASSIGN(const std::span<float> weighted, call->copied(args.in, args));
        if (own != 1) TROUPE_TRY(args.memory->scale(weighted, own));
        TROUPE_ASSIGN(collectives::Communicator* const ranks, call->group(args));
        TROUPE_TRY(ranks->all_gather(weighted, args.out, call->options(args, "/gradient"))->wait());
        TROUPE_ASSIGN(const float divisor, op == ReduceOp::kMean ? call->sum_of_factors(args) : Result<float>(own));
        return divisor == 1 ? Status() : args.memory->scale(args.out, divisor == 0 ? 0 : 1 / divisor);
      },
      call->gpu());
  forward.with_rule(call->replicas, [=](const hlo::Joint& of) {
    return row_of_sum(op == ReduceOp::kMean ? hlo::weighted(call->share(of), of.in) : of.in, call->count());
  });
  backward.with_rule(call->replicas, [=](const hlo::Joint& of) {
    const hlo::Value f = call->factor(of);
    const hlo::Value all = rows_of_replicas(hlo::weighted(f, of.in), call->count());
    return Exchange::divided(all, op == ReduceOp::kMean ? sum_of_replicas(f, call->count()) : f);
  });
  return {forward, backward};
}

// ---- maps ----

namespace {

/// What becomes of the results of a map; gathered, item i is at [i mod replicas, i / replicas].
struct Mapped : Exchange, MapShape {
  Mapped(const Meeting& meeting, const MapShape& shape) : Exchange(meeting), MapShape(shape) {}

  std::size_t at(std::size_t item) const { return (item % replicas * slots + item / replicas) * elements; }
  /// All results.
  Result<std::span<float>> meet(const JointArgs& args) {
    TROUPE_ASSIGN(const std::span<float> all, room(replicas * slots * elements, args));
    if (communicator == nullptr) {
      TROUPE_TRY(args.memory->copy(args.in, all));
      return all;
    }
    TROUPE_ASSIGN(collectives::Communicator* const ranks, group(args));
    TROUPE_TRY(ranks->all_gather(args.in, all, options(args, ""))->wait());
    return all;
  }
  Status gather(const JointArgs& args) {
    TROUPE_ASSIGN(const std::span<const float> all, meet(args));
    for (std::size_t i = 0; i < items; ++i) {
      TROUPE_TRY(args.memory->copy(all.subspan(at(i), elements), args.out.subspan(i * elements, elements)));
    }
    return {};
  }
  Status gather_gradient(const JointArgs& args) {
    TROUPE_ASSIGN(const std::span<float> gradients, room(replicas * slots * elements, args));
    TROUPE_TRY(args.memory->scale(gradients, 0));  // of the slots that hold no item
    for (std::size_t i = 0; i < items; ++i) {
      TROUPE_TRY(args.memory->copy(args.in.subspan(i * elements, elements), gradients.subspan(at(i), elements)));
    }
    return scatter_gradient(gradients, args.out, args);
  }
  /// held becomes d result / d item for each of the own slots, [slots, elements].
  Status reduce(const JointArgs& args, ReduceOp op) {
    TROUPE_ASSIGN(const std::span<const float> results, meet(args));
    held.assign(slots * elements, 0);
    const bool all = op == ReduceOp::kSum || op == ReduceOp::kMean;
    for (std::size_t e = 0; e < elements; ++e) {
      const auto value = [&](std::size_t i) { return results[at(i) + e]; };
      float result = 0, ties = 1;
      if (all) {
        ties = op == ReduceOp::kMean ? static_cast<float>(items) : 1;
        result = tree_sum(0, items, value) / ties;
      } else {
        result = value(0);
        for (std::size_t i = 1; i < items; ++i) {
          const float x = value(i);
          if (x != x || (op == ReduceOp::kMax ? x > result : x < result)) result = x;
        }
        ties = 0;
        for (std::size_t i = 0; i < items; ++i) ties += value(i) == result ? 1.0F : 0.0F;
      }
      args.out[e] = result;
      for (std::size_t i = rank; i < items; i += replicas) {
        if (all || value(i) == result) held[i / replicas * elements + e] = 1 / ties;
      }
    }
    return {};
  }
  Status reduce_gradient(const JointArgs& args) const {
    std::vector<float> dy(args.in.begin(), args.in.end());
    TROUPE_TRY(weigh(dy, args));
    for (std::size_t i = 0; i < args.out.size(); ++i) args.out[i] = held[i] * dy[i % elements];
    return {};
  }
};

}  // namespace

StepCollective map_gather(const Meeting& meeting, const MapShape& shape) {
  const auto map = std::make_shared<Mapped>(meeting, shape);
  return {JointFn([map](const JointArgs& args) { return map->gather(args); }, map->gpu()),
          JointFn([map](const JointArgs& args) { return map->gather_gradient(args); }, map->gpu())};
}

StepCollective map_reduce(const Meeting& meeting, const MapShape& shape, ReduceOp op) {
  const auto map = std::make_shared<Mapped>(meeting, shape);
  return {JointFn([map, op](const JointArgs& args) { return map->reduce(args, op); }),
          JointFn([map](const JointArgs& args) { return map->reduce_gradient(args); })};
}

}  // namespace troupe::learner
