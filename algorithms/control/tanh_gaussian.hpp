#pragma once
// The policy of SAC and those after it: a Gaussian whose draws tanh brings into [-1, 1] (Haarnoja et al. 2018, arXiv
// 1812.05905, appendix C), and what their steps have alike.
#include <cstdint>

#include <troupe/algorithms/control/environment_shape.hpp>
#include <troupe/learner/graph/graph.hpp>

namespace troupe::learner::control {

/// One for each action dimension, before tanh: [rows, action_size] both.
struct Gaussian {
  Var mean, log_stddev;
};

/// tanh of a draw, in [-1, 1], and the logarithm of its density there (Eq. 26): [rows, action_size], [rows].
struct Draw {
  Var action, log_prob;
};
/// noise: standard normal, [rows, action_size].
Draw draw(const Gaussian& policy, Var noise);

/// The outputs of a network of acting: "action", tanh of the mean within the action's bounds, "mean" and "stddev".
void give_actions(Graph& graph, const EnvironmentShape& environment, const Gaussian& policy);

/// Of the two draws of a step: standard normal, [rows, action_size] both.
struct DrawNoise {
  Var next_action, action;
};
DrawNoise draw_noise(Graph& graph, std::int64_t action_size);

/// What a step of such an agent computes; the critics' part is each agent's own.
struct SoftLosses {
  ParamGroup policy, critic, temperature;
  Var critic_loss;       ///< scalar
  Var policy_loss;       ///< scalar: mean of alpha log pi - the smaller value (Eq. 7)
  Var temperature_loss;  ///< scalar: minus the mean of alpha (log pi + the target entropy) (Eq. 18)
  Var q_mean;            ///< scalar: of the first critic
  Var entropy;           ///< scalar: minus the mean of log pi
  Var alpha;             ///< scalar
  Var td_error;          ///< [batch]: the new priority in prioritised replay
};
/// Metrics: critic_loss, policy_loss, temperature_loss, q_mean, entropy, alpha. Output: td_error.
void show(Graph& graph, const SoftLosses& losses);

}  // namespace troupe::learner::control
