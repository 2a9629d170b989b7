#include <troupe/algorithms/d4pg/networks.hpp>

#include <fmt/format.h>

#include <troupe/algorithms/control/layer_norm_mlp.hpp>

namespace troupe::learner::d4pg {
namespace {

/// What the layers of a network read.
Var read(Graph& graph, ParamGroup group, const Options& options, Var observation) {
  return options.from_images() ? control::trunk(graph, group, options.encoder, observation) : observation;
}

}  // namespace

Var policy_network(Graph& graph, ParamGroup group, const Options& options, Var observation) {
  const control::LayerNormMlp layers{options.policy_sizes, options.policy_activation, options.devices};
  const Var features = control::layer_norm_mlp(graph, group, layers, read(graph, group, options, observation));
  const DeviceScope head(graph, options.devices - 1);
  const std::string name = fmt::format("layer{}", layers.sizes.size());
  return control::to_bounds(
      graph, options.environment,
      control::near_zero_linear(graph, group, name, options.environment.action_size(), Activation::kTanh, features));
}

Var critic_network(Graph& graph, ParamGroup group, const Options& options, Var observation, Var action) {
  return control::categorical_critic(graph, group, {options.critic_sizes, options.critic_activation, options.devices},
                                     options.support.count, read(graph, group, options, observation), action);
}

}  // namespace troupe::learner::d4pg
