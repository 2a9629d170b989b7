#pragma once
// What MPO learns a policy by (Acme's acme/tf/losses/mpo.py). The E-step gives each of the actions that were drawn of a
// state a weight by its value: as much as a limit on the divergence of these weights allows. The M-step makes the
// weighted actions more probable, within limits on the divergence of the policy from the one that drew them. Each limit
// has a dual variable, which is learned beside.
#include <troupe/algorithms/dmpo/networks.hpp>
#include <troupe/algorithms/dmpo/options.hpp>
#include <troupe/learner/graph/graph.hpp>

namespace troupe::learner::dmpo {

/// Of each state: who drew actions, what was drawn, in units of [-1, 1], and what that is worth.
struct Draws {
  Gaussian policy;
  Var actions;  ///< [batch, samples, action_size]
  Var values;   ///< [batch, samples]
};

/// Scalars all.
struct PolicyLosses {
  ParamGroup duals;
  Var policy_loss;               ///< the M-step's, of the policy alone
  Var dual_loss;                 ///< of the duals alone
  Var temperature;               ///< eta
  Var penalty_temperature;       ///< invalid without action_penalization
  Var alpha_mean, alpha_stddev;  ///< means over action dimensions
  Var kl_samples;                ///< of the weights by value from equal ones
  Var kl_mean, kl_stddev;        ///< of an action dimension
};

/// online: the policy that learns, of the same states.
PolicyLosses policy_losses(Graph& graph, const Options& options, const Gaussian& online, const Draws& draws);

}  // namespace troupe::learner::dmpo
