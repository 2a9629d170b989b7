#include <troupe/algorithms/dmpo/networks.hpp>

#include <numbers>

#include <troupe/algorithms/control/layer_norm_mlp.hpp>
#include <troupe/algorithms/control/observation_norm.hpp>
#include <troupe/learner/ops/math.hpp>

namespace troupe::learner::dmpo {
namespace {

constexpr double kFirstStddev = 0.7, kLeastStddev = 1e-6;

}  // namespace

Var seen(Graph& graph, const Options& options, Var observation) {
  return control::observed(graph, options.normalise_observations, observation, kActingGroup);
}

Gaussian policy_network(Graph& graph, ParamGroup group, const Options& options, Var observation) {
  const Var features = control::layer_norm_mlp(
      graph, group, {options.policy_sizes, options.policy_activation, options.devices}, observation);
  const DeviceScope head(graph, options.devices - 1);
  const auto output = [&](const char* name) {
    return control::near_zero_linear(graph, group, name, options.environment.action_size(), Activation::kNone,
                                     features);
  };
  const Var mean = output("mean");
  return {mean, affine(softplus(output("stddev")), kFirstStddev / std::numbers::ln2, kLeastStddev)};
}

void build_policy(Graph& graph, const Options& options) {
  const Var observation = seen(graph, options, graph.input("observation", Shape{options.environment.observation_size}));
  const Gaussian policy = policy_network(graph, graph.group(kActingGroup), options, observation);
  graph.output("action", told(graph, options, policy.mean));
  graph.output("mean", policy.mean);
  graph.output("stddev", policy.stddev);
}

Var told(Graph& graph, const Options& options, Var action) {
  return control::to_bounds(graph, options.environment, clip(action, -1, 1));
}

Var critic_network(Graph& graph, ParamGroup group, const Options& options, Var observation, Var action) {
  return control::categorical_critic(graph, group, {options.critic_sizes, options.critic_activation, options.devices},
                                     options.support.count, observation,
                                     control::within_bounds(graph, options.environment, action));
}

}  // namespace troupe::learner::dmpo
