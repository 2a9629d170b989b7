#pragma once
// FlashSAC's networks: linear layers without bias whose outputs' weights keep length 1, batch norm behind each,
// residual blocks, and RMS norm before the head. What normalises keeps its length too, so that neither grows, and a
// learning rate means the same at the end as at the beginning.
#include <functional>
#include <string>

#include <troupe/algorithms/control/tanh_gaussian.hpp>
#include <troupe/algorithms/flashsac/options.hpp>
#include <troupe/learner/graph/graph.hpp>
#include <troupe/learner/replicate/network_mode.hpp>

namespace troupe::learner::flashsac {

/// A network that is applied: its parameters, and the state of its batch norms, "STATES/NAME/...".
struct Applied {
  ParamGroup group;
  std::string states;  ///< mostly the group's name, so that they are published with it
  NetworkMode mode;
  Var moves = {};  ///< [1]: with training, running statistics move in steps where it is not 0; invalid: in all
};

/// Its log_stddev is within [-10, 2].
control::Gaussian policy_network(Graph& graph, const Applied& applied, const Options& options, Var observation);

/// The logits of two value distributions, each [rows, atoms], by networks of their own. The second one is built on the
/// graph's device after that which is set. action: within its bounds.
struct TwinLogits {
  Var first, second;
};
TwinLogits twin_critics(Graph& graph, const Applied& applied, const Options& options, Var observation, Var action);

}  // namespace troupe::learner::flashsac
