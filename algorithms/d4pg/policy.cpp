#include <troupe/algorithms/d4pg/policy.hpp>

#include <troupe/algorithms/d4pg/networks.hpp>

namespace troupe::learner::d4pg {

Result<std::unique_ptr<Policy>> make_policy(const Options& options, const PolicyOptions& policy_options) {
  TROUPE_TRY(validate(options));
  const auto network = [&options](Graph& graph, Var observation) {
    return policy_network(graph, graph.group(kPolicyGroup), options, observation);
  };
  return Policy::make(network, options.environment.observation_size, policy_options);
}

}  // namespace troupe::learner::d4pg
