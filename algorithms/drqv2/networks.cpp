#include <troupe/algorithms/drqv2/networks.hpp>

#include <fmt/format.h>

#include <cmath>

#include <troupe/learner/ops/convolution.hpp>
#include <troupe/learner/ops/image.hpp>
#include <troupe/learner/ops/linear.hpp>
#include <troupe/learner/ops/norm.hpp>
#include <troupe/learner/ops/shaping.hpp>

namespace troupe::learner::drqv2 {
namespace {

constexpr auto kInit = control::DenseInit::kOrthogonal;
constexpr int kConvolutions = 4;

/// The few numbers that a network goes on with: a linear layer, layer norm, tanh.
Var trunk(Graph& graph, ParamGroup group, const Options& options, Var seen) {
  if (!seen) return {};
  const Shape columns{options.features};
  const Var weight =
      graph.param(group, "trunk/weight", Shape{graph.spec(seen).shape[1], options.features}, Init::orthogonal(1));
  return layer_norm(matmul(seen, weight), graph.param(group, "trunk/bias", columns, Init::constant(0)),
                    graph.param(group, "trunk/gain", columns, Init::constant(1)),
                    graph.param(group, "trunk/offset", columns, Init::constant(0)), Activation::kTanh);
}

}  // namespace

Var encode(Graph& graph, ParamGroup group, const Options& options, Var pixels) {
  Var x = from_bytes(pixels, 1.0 / 255, -0.5);
  for (int i = 0; i < kConvolutions && x; ++i) {
    const std::int64_t channels = graph.spec(x).shape[3];
    const Var weight = graph.param(group, fmt::format("conv{}/weight", i), Shape{3, 3, channels, options.filters},
                                   Init::orthogonal(std::sqrt(2.0)));
    const Var bias = graph.param(group, fmt::format("conv{}/bias", i), Shape{options.filters}, Init::constant(0));
    x = conv2d(x, weight, bias, {.stride = i == 0 ? 2 : 1, .activation = Activation::kRelu});
  }
  return x ? reshape(x, Shape{graph.batch(), graph.spec(x).shape.elements() / graph.batch()}) : Var{};
}

Var policy_network(Graph& graph, ParamGroup group, const Options& options, Var seen) {
  const Var hidden = control::mlp(graph, group, "policy", options.policy_sizes, options.policy_activation,
                                  trunk(graph, group, options, seen), kInit);
  return control::dense(graph, group, "policy/action", options.environment.action_size(), Activation::kTanh, hidden,
                        kInit);
}

control::TwinValues critic_networks(Graph& graph, ParamGroup group, const Options& options, Var seen, Var action) {
  return control::twin_critics(graph, group, options.critic_sizes, options.critic_activation,
                               trunk(graph, group, options, seen), action, kInit);
}

void build_policy(Graph& graph, const Options& options) {
  const ParamGroup policy = graph.group(kPolicyGroup), encoder = graph.group(kEncoderGroup);
  const Var seen = encode(graph, encoder, options, graph.input("pixels", options.pixels, DType::kU8));
  const Var action = policy_network(graph, policy, options, seen);
  if (action) graph.output("action", control::to_bounds(graph, options.environment, action));
}

}  // namespace troupe::learner::drqv2
