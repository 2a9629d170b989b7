#include <troupe/algorithms/control/mlp.hpp>

#include <fmt/format.h>

#include <cmath>

#include <troupe/learner/ops/linear.hpp>
#include <troupe/learner/ops/shaping.hpp>

namespace troupe::learner::control {

Var dense(Graph& graph, ParamGroup group, std::string_view name, std::int64_t size, Activation kind, Var x,
          DenseInit init) {
  if (!x) return {};
  const std::int64_t width = graph.spec(x).shape[1];
  const Init uniform = Init::uniform(1 / std::sqrt(static_cast<double>(width)));
  const bool orthogonal = init == DenseInit::kOrthogonal;
  const Var weight = graph.param(group, fmt::format("{}/weight", name), Shape{width, size},
                                 orthogonal ? Init::orthogonal(1) : uniform);
  const Var bias =
      graph.param(group, fmt::format("{}/bias", name), Shape{size}, orthogonal ? Init::constant(0) : uniform);
  return linear(x, weight, bias, kind);
}

Var mlp(Graph& graph, ParamGroup group, std::string_view name, const std::vector<std::int64_t>& sizes, Activation kind,
        Var x, DenseInit init) {
  for (std::size_t layer = 0; layer < sizes.size(); ++layer) {
    x = dense(graph, group, fmt::format("{}/layer{}", name, layer), sizes[layer], kind, x, init);
  }
  return x;
}

TwinValues twin_critics(Graph& graph, ParamGroup group, const std::vector<std::int64_t>& sizes, Activation kind,
                        Var observation, Var action, DenseInit init) {
  const Var input = concat(observation, action);
  const auto value = [&](std::string_view name) {
    const Var features = mlp(graph, group, name, sizes, kind, input, init);
    return reshape(dense(graph, group, fmt::format("{}/value", name), 1, Activation::kNone, features, init),
                   Shape{graph.batch()});
  };
  const Var first = value("first");
  const DeviceScope second_device(graph, graph.device() + 1);
  return {first, value("second")};
}

}  // namespace troupe::learner::control
