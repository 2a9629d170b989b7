#include <troupe/algorithms/d4pg/policy.hpp>

#include <troupe/algorithms/control/observation_norm.hpp>
#include <troupe/algorithms/d4pg/networks.hpp>

namespace troupe::learner::d4pg {

PolicyColumns policy_columns(const Options& options) {
  const TensorSpec observation = batch_signature(options).front();
  return {{observation}, {{"action", DType::kF32, Shape{options.environment.action_size()}}}};
}

void build_policy(Graph& graph, const Options& options) {
  const TensorSpec column = batch_signature(options).front();
  const Var observation = graph.input(column.name, column.shape, column.dtype);
  const ParamGroup policy = graph.group(kPolicyGroup);
  const Var seen = options.from_images()
                       ? control::encode(graph, graph.group(control::kEncoderGroup), options.encoder, observation)
                       : control::observed(graph, options.normalise_observations, observation);
  graph.output("action", policy_network(graph, policy, options, seen));
}

Result<std::unique_ptr<Policy>> make_policy(const Options& options, const PolicyOptions& policy_options) {
  TROUPE_TRY(validate(options));
  return Policy::make([&options](Graph& graph) { build_policy(graph, options); }, policy_columns(options),
                      policy_options);
}

}  // namespace troupe::learner::d4pg
