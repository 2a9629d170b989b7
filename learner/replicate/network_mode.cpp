#include <troupe/learner/replicate/network_mode.hpp>

namespace troupe::learner {

NetworkMode training_mode(ReplicaContext& context, bool sync_batch_norm) {
  NetworkMode mode{.devices = context.devices()};
  if (sync_batch_norm) {
    mode.all_sum = [&context](Var x) { return context.all_sum(x); };
    mode.shared = [&context](Var state) { context.set_policy(state, VariablePolicy::kSync); };
  }
  return mode;
}

RunningStatistics running_statistics(Graph& graph, const std::string& name, std::int64_t channels,
                                     const NetworkMode& mode) {
  const RunningStatistics made = {graph.state(name + "/mean", Shape{channels}, Init::constant(0)),
                                  graph.state(name + "/variance", Shape{channels}, Init::constant(1))};
  if (mode.shared) {
    mode.shared(made.mean);
    mode.shared(made.variance);
  }
  return made;
}

}  // namespace troupe::learner
