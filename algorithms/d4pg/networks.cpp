#include <troupe/algorithms/d4pg/networks.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <troupe/learner/ops/linear.hpp>
#include <troupe/learner/ops/norm.hpp>
#include <troupe/learner/ops/shaping.hpp>

namespace troupe::learner::d4pg {
namespace {

/// Builds the layers of one network in order, naming them layer0, layer1, ...
struct LayerBuilder {
  Graph& graph;
  ParamGroup group;
  std::int64_t width;
  int layer = 0;

  Var weight(std::int64_t size, Init init) {
    return graph.param(group, fmt::format("layer{}/weight", layer), Shape{width, size}, init);
  }
  Var bias(std::int64_t size) {
    return graph.param(group, fmt::format("layer{}/bias", layer), Shape{size}, Init::constant(0));
  }
  void next(std::int64_t size) {
    width = size;
    ++layer;
  }
};

/// Sonnet's VarianceScaling(scale 0.333, fan_out, uniform), which Acme's LayerNormMLP uses for all of its layers.
Init uniform_init(std::int64_t fan_out) { return Init::uniform(std::sqrt(3 * 0.333 / static_cast<double>(fan_out))); }

/// All layers but the head.
Var layer_norm_mlp(LayerBuilder& builder, const std::vector<std::int64_t>& sizes, Activation kind, int devices, Var x) {
  Graph& graph = builder.graph;
  const auto layers = static_cast<std::int64_t>(sizes.size()) + 1;  // with the head, which is on the last device
  for (const std::int64_t size : sizes) {
    const DeviceScope stage(graph, static_cast<int>(builder.layer * devices / layers));
    const Var weight = builder.weight(size, uniform_init(size));
    const Var bias = builder.bias(size);
    if (builder.layer == 0) {
      const Var gain = graph.param(builder.group, "norm/gain", Shape{size}, Init::constant(1));
      const Var offset = graph.param(builder.group, "norm/offset", Shape{size}, Init::constant(0));
      x = layer_norm(matmul(x, weight), bias, gain, offset, Activation::kTanh);
    } else {
      x = linear(x, weight, bias, kind);
    }
    builder.next(size);
  }
  return x;
}

}  // namespace

Var policy_network(Graph& graph, ParamGroup group, const Options& options, Var observation) {
  LayerBuilder builder{graph, group, options.environment.observation_size};
  const Var features =
      layer_norm_mlp(builder, options.policy_sizes, options.policy_activation, options.devices, observation);
  const DeviceScope head(graph, options.devices - 1);
  const std::int64_t size = options.environment.action_size();
  // Acme's NearZeroInitializedLinear: first actions lie in the middle of their range. VarianceScaling(1e-4, fan_in)
  // draws from a normal truncated at two standard deviations, whose own deviation is 0.8796 of the full one.
  const double stddev = std::sqrt(1e-4 / static_cast<double>(builder.width)) / 0.87962566103423978;
  const Var weight = builder.weight(size, Init::truncated_normal(stddev));
  return control::to_bounds(graph, options.environment,
                            linear(features, weight, builder.bias(size), Activation::kTanh));
}

Var critic_network(Graph& graph, ParamGroup group, const Options& options, Var observation, Var action) {
  LayerBuilder builder{graph, group, options.environment.observation_size + options.environment.action_size()};
  const Var features = layer_norm_mlp(builder, options.critic_sizes, options.critic_activation, options.devices,
                                      concat(observation, action));
  const DeviceScope head(graph, options.devices - 1);
  const std::int64_t atoms = options.support.count;
  const Var weight = builder.weight(atoms, uniform_init(atoms));
  return linear(features, weight, builder.bias(atoms));
}

}  // namespace troupe::learner::d4pg
