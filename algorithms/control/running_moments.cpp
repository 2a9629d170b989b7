#include <troupe/algorithms/control/running_moments.hpp>

#include <fmt/format.h>

#include <troupe/learner/ops/broadcast.hpp>
#include <troupe/learner/ops/choice.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/joint.hpp>
#include <troupe/learner/ops/reduce.hpp>
#include <troupe/learner/ops/shaping.hpp>

namespace troupe::learner::control {
namespace {

constexpr double kLeastRate = 1e-3;

}  // namespace

RunningMoments running_moments(Graph& graph, std::string_view name, std::int64_t n) {
  const auto state = [&](const char* of, const Shape& shape, double at_first) {
    return graph.state(fmt::format("{}/{}", name, of), shape, Init::constant(at_first));
  };
  return {state("mean", {1, n}, 0), state("variance", {1, n}, 1), state("batches", {1, 1}, 0)};
}

void learn_moments(ReplicaContext& context, std::string_view name, Var x) {
  if (!x) return;
  Graph& graph = context.graph();
  const std::int64_t n = graph.spec(x).shape[1];
  const RunningMoments of = running_moments(graph, name, n);
  // Sums of the differences from the mean so far lose no digits to a mean that is far from 0.
  const Var difference = sub(x, of.mean);
  const auto sum_rows = [n](Var each) { return reshape(sum_to(each, {n}), {1, n}); };  // of {1, n} it might be a row
  const Var sums =
      concat(concat(sum_rows(difference), sum_rows(square(difference))), reshape(count_rows(graph), {1, 1}));
  const Var all = context.meets() ? context.all_sum(sums, name) : sum_stripes(sums);
  const Var rows = maximum(slice(all, 2 * n, 2 * n + 1), graph.constant({1, 1}, {1}));
  const Var shift = div(slice(all, 0, n), rows);
  const Var variance = sub(div(slice(all, n, 2 * n), rows), square(shift));

  const Var rate = maximum(div(graph.constant({1, 1}, {1}), affine(of.batches, 1, 1)),
                           graph.constant({1, 1}, {static_cast<float>(kLeastRate)}));
  const Var between = mul(square(shift), affine(rate, -1, 1));
  graph.assign(of.mean, add(of.mean, mul(rate, shift)));
  graph.assign(of.variance, add(of.variance, mul(rate, add(sub(variance, of.variance), between))));
  graph.assign(of.batches, minimum(affine(of.batches, 1, 1), graph.constant({1, 1}, {1 << 20})));
}

}  // namespace troupe::learner::control
