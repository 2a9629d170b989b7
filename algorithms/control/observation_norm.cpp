#include <troupe/algorithms/control/observation_norm.hpp>

#include <fmt/format.h>

#include <string>

#include <troupe/algorithms/control/running_moments.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/math.hpp>

namespace troupe::learner::control {
namespace {

constexpr double kFarthest = 10, kEpsilon = 1e-8;

std::string moments_name(std::string_view published) { return fmt::format("{}/observation", published); }

}  // namespace

Var observed(Graph& graph, bool normalise, Var x, std::string_view published) {
  if (!normalise || !x) return x;
  const RunningMoments of = running_moments(graph, moments_name(published), graph.spec(x).shape[1]);
  return clip(div(sub(x, of.mean), sqrt(affine(of.variance, 1, kEpsilon))), -kFarthest, kFarthest);
}

void learn_observations(ReplicaContext& context, Var observation, std::string_view published) {
  learn_moments(context, moments_name(published), observation);
}

}  // namespace troupe::learner::control
