#include <troupe/algorithms/control/mlp.hpp>

#include <fmt/format.h>

#include <cmath>

#include <troupe/learner/ops/linear.hpp>
#include <troupe/learner/ops/shaping.hpp>

namespace troupe::learner::control {

Var dense(Graph& graph, ParamGroup group, std::string_view name, std::int64_t size, Activation kind, Var x) {
  if (!x) return {};
  const std::int64_t width = graph.spec(x).shape[1];
  const Init init = Init::uniform(1 / std::sqrt(static_cast<double>(width)));
  const Var weight = graph.param(group, fmt::format("{}/weight", name), Shape{width, size}, init);
  return linear(x, weight, graph.param(group, fmt::format("{}/bias", name), Shape{size}, init), kind);
}

Var mlp(Graph& graph, ParamGroup group, std::string_view name, const std::vector<std::int64_t>& sizes, Activation kind,
        Var x) {
  for (std::size_t layer = 0; layer < sizes.size(); ++layer) {
    x = dense(graph, group, fmt::format("{}/layer{}", name, layer), sizes[layer], kind, x);
  }
  return x;
}

TwinValues twin_critics(Graph& graph, ParamGroup group, const std::vector<std::int64_t>& sizes, Activation kind,
                        Var observation, Var action) {
  const Var input = concat(observation, action);
  const auto value = [&](std::string_view name) {
    const Var features = mlp(graph, group, name, sizes, kind, input);
    return reshape(dense(graph, group, fmt::format("{}/value", name), 1, Activation::kNone, features),
                   Shape{graph.batch()});
  };
  const Var first = value("first");
  const DeviceScope second_device(graph, graph.device() + 1);
  return {first, value("second")};
}

}  // namespace troupe::learner::control
