#include <troupe/algorithms/drqv2/networks.hpp>

namespace troupe::learner::drqv2 {
namespace {

constexpr auto kInit = control::DenseInit::kOrthogonal;

}  // namespace

Var policy_network(Graph& graph, ParamGroup group, const Options& options, Var seen) {
  const Var hidden = control::mlp(graph, group, "policy", options.policy_sizes, options.policy_activation,
                                  control::trunk(graph, group, options.encoder, seen), kInit);
  return control::dense(graph, group, "policy/action", options.environment.action_size(), Activation::kTanh, hidden,
                        kInit);
}

control::TwinValues critic_networks(Graph& graph, ParamGroup group, const Options& options, Var seen, Var action) {
  return control::twin_critics(graph, group, options.critic_sizes, options.critic_activation,
                               control::trunk(graph, group, options.encoder, seen), action, kInit);
}

void build_policy(Graph& graph, const Options& options) {
  const ParamGroup policy = graph.group(kPolicyGroup), encoder = graph.group(control::kEncoderGroup);
  const Var pixels = graph.input("pixels", options.encoder.pixels, DType::kU8);
  const Var seen = control::encode(graph, encoder, options.encoder, pixels);
  const Var action = policy_network(graph, policy, options, seen);
  if (action) graph.output("action", control::to_bounds(graph, options.environment, action));
}

}  // namespace troupe::learner::drqv2
