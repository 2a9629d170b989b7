#include <troupe/algorithms/control/layer_norm_mlp.hpp>

#include <fmt/format.h>

#include <cmath>
#include <string>

#include <troupe/learner/ops/linear.hpp>
#include <troupe/learner/ops/norm.hpp>
#include <troupe/learner/ops/shaping.hpp>

namespace troupe::learner::control {
namespace {

/// Sonnet's VarianceScaling(scale 0.333, fan_out, uniform), which Acme's LayerNormMLP uses for all of its layers.
Init uniform_init(std::int64_t fan_out) { return Init::uniform(std::sqrt(3 * 0.333 / static_cast<double>(fan_out))); }

/// Weight and bias of a layer.
struct Linear {
  Var weight, bias;
};
Linear linear_layer(Graph& graph, ParamGroup group, std::string_view name, std::int64_t size, Init init, Var x) {
  const Var weight = graph.param(group, fmt::format("{}/weight", name), Shape{graph.spec(x).shape[1], size}, init);
  return {weight, graph.param(group, fmt::format("{}/bias", name), Shape{size}, Init::constant(0))};
}

std::string layer_name(std::size_t layer) { return fmt::format("layer{}", layer); }

}  // namespace

Var layer_norm_mlp(Graph& graph, ParamGroup group, const LayerNormMlp& layers, Var x) {
  const std::size_t count = layers.sizes.size() + 1;  // with the head, which is on the last device
  for (std::size_t layer = 0; layer < layers.sizes.size() && x; ++layer) {
    const DeviceScope stage(graph, static_cast<int>(layer * static_cast<std::size_t>(layers.devices) / count));
    const std::int64_t size = layers.sizes[layer];
    const auto [weight, bias] = linear_layer(graph, group, layer_name(layer), size, uniform_init(size), x);
    if (layer == 0) {
      const Var gain = graph.param(group, "norm/gain", Shape{size}, Init::constant(1));
      const Var offset = graph.param(group, "norm/offset", Shape{size}, Init::constant(0));
      x = layer_norm(matmul(x, weight), bias, gain, offset, Activation::kTanh);
    } else {
      x = linear(x, weight, bias, layers.activation);
    }
  }
  return x;
}

Var near_zero_linear(Graph& graph, ParamGroup group, std::string_view name, std::int64_t size, Activation kind, Var x) {
  if (!x) return {};
  // VarianceScaling(1e-4, fan_in) draws from a normal truncated at two standard deviations, whose own deviation is
  // 0.8796 of the full one.
  const double stddev = std::sqrt(1e-4 / static_cast<double>(graph.spec(x).shape[1])) / 0.87962566103423978;
  const auto [weight, bias] = linear_layer(graph, group, name, size, Init::truncated_normal(stddev), x);
  return linear(x, weight, bias, kind);
}

Var categorical_critic(Graph& graph, ParamGroup group, const LayerNormMlp& layers, std::int64_t atoms, Var observation,
                       Var action) {
  const Var features = layer_norm_mlp(graph, group, layers, concat(observation, action));
  if (!features) return {};
  const DeviceScope head(graph, layers.devices - 1);
  const std::string name = layer_name(layers.sizes.size());
  const auto [weight, bias] = linear_layer(graph, group, name, atoms, uniform_init(atoms), features);
  return linear(features, weight, bias);
}

Status validate_support(const Support& support, std::string_view where) {
  if (support.count < 2) {
    return Error{Code::kInvalidArgument, fmt::format("{}: atoms is {}, expected at least 2", where, support.count)};
  }
  if (!std::isfinite(support.low) || !std::isfinite(support.high) || support.low >= support.high) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: v_min is {}, expected finite and below v_max {}", where, support.low, support.high)};
  }
  return {};
}

}  // namespace troupe::learner::control
