#pragma once
// The policy of SAC and those after it: a Gaussian whose draws tanh brings into [-1, 1] (Haarnoja et al. 2018, arXiv
// 1812.05905, appendix C).
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

}  // namespace troupe::learner::control
