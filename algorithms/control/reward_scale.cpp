#include <troupe/algorithms/control/reward_scale.hpp>

#include <troupe/algorithms/control/running_moments.hpp>
#include <troupe/learner/ops/choice.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/math.hpp>
#include <troupe/learner/ops/reduce.hpp>
#include <troupe/learner/ops/shaping.hpp>

namespace troupe::learner::control {
namespace {

constexpr const char* kReturns = "returns";
constexpr double kVarianceEpsilon = 1e-8;

Var peak_state(Graph& graph) { return graph.state("returns/peak", Shape{1, 1}, Init::constant(0)); }

}  // namespace

void learn_returns(ReplicaContext& context, Var returns) {
  if (!returns) return;
  Graph& graph = context.graph();
  learn_moments(context, kReturns, reshape(returns, Shape{graph.batch(), 1}));
  const Var own = reshape(greatest(abs(returns)), Shape{1, 1});
  const Var all = context.meets() ? context.all_reduce(own, collectives::ReduceOp::kMax, "peak of returns") : own;
  const Var peak = peak_state(graph);
  graph.assign(peak, maximum(peak, all));
}

Var scaled_rewards(Graph& graph, Var reward, double most) {
  if (!reward) return {};
  const RunningMoments of = running_moments(graph, kReturns, 1);
  const Var deviation = sqrt(affine(graph.latest(of.variance), 1, kVarianceEpsilon));
  const Var scale_of = maximum(deviation, scale(graph.latest(peak_state(graph)), 1 / most));
  return div(reward, reshape(scale_of, Shape{1}));
}

}  // namespace troupe::learner::control
