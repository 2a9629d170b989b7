#pragma once
// A draw from the Gaussian that a policy gives, brought into the action's bounds in one of two ways. Both take the
// policy's outputs "mean" and "stddev", float32[n], draw a number, bring it to x in [-1, 1], and give the action
// float32[n], low + (x + 1) / 2 * (high - low), without extras. Errors of the making: kInvalidArgument; of choose():
// kNotFound, when the policy lacks an output.
#include <vector>

#include <troupe/algorithms/acting/exploration.hpp>

namespace troupe::acting {

/// x = tanh(draw): the policy of SAC (Haarnoja et al. 2018, arXiv 1812.05905, appendix C).
MakeExploration tanh_gaussian(std::vector<double> low, std::vector<double> high);
/// x is the number in [-1, 1] that is nearest to the draw: the policy of MPO, as Acme's environments clip it.
MakeExploration clipped_gaussian(std::vector<double> low, std::vector<double> high);

}  // namespace troupe::acting
