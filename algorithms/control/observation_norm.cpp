#include <troupe/algorithms/control/observation_norm.hpp>

#include <fmt/format.h>

#include <troupe/learner/ops/broadcast.hpp>
#include <troupe/learner/ops/choice.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/joint.hpp>
#include <troupe/learner/ops/math.hpp>
#include <troupe/learner/ops/reduce.hpp>
#include <troupe/learner/ops/shaping.hpp>

namespace troupe::learner::control {
namespace {

constexpr double kFarthest = 10, kEpsilon = 1e-8, kLeastRate = 1e-3;

struct Statistics {
  Var mean, variance;  ///< [1, n]
  Var batches;         ///< [1, 1]: how many have moved them
};

Statistics statistics(Graph& graph, std::string_view published, std::int64_t n) {
  const auto state = [&](const char* name, const Shape& shape, double at_first) {
    return graph.state(fmt::format("{}/observation/{}", published, name), shape, Init::constant(at_first));
  };
  return {state("mean", {1, n}, 0), state("variance", {1, n}, 1), state("batches", {1, 1}, 0)};
}

}  // namespace

Var observed(Graph& graph, bool normalise, Var x, std::string_view published) {
  if (!normalise || !x) return x;
  const Statistics of = statistics(graph, published, graph.spec(x).shape[1]);
  return clip(div(sub(x, of.mean), sqrt(affine(of.variance, 1, kEpsilon))), -kFarthest, kFarthest);
}

void learn_observations(ReplicaContext& context, Var observation, std::string_view published) {
  if (!observation) return;
  Graph& graph = context.graph();
  const std::int64_t n = graph.spec(observation).shape[1];
  const Statistics of = statistics(graph, published, n);
  // Sums of the differences from the mean so far lose no digits to a mean that is far from 0.
  const Var difference = sub(observation, of.mean);
  const Var sums = concat(concat(sum_to(difference, {1, n}), sum_to(square(difference), {1, n})),
                          reshape(count_rows(graph), {1, 1}));
  const Var all = context.meets() ? context.all_sum(sums, "observations") : sum_stripes(sums);
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
