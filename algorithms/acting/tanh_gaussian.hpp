#pragma once
// A draw from a Gaussian that is squashed into the action's bounds: the policy of SAC (Haarnoja et al. 2018, arXiv
// 1812.05905, appendix C).
#include <vector>

#include <troupe/algorithms/acting/exploration.hpp>

namespace troupe::acting {

/// Takes the policy's outputs "mean" and "stddev", float32[n], of the number before tanh, and gives the action
/// float32[n], low + (tanh(mean + stddev * draw) + 1) / 2 * (high - low), without extras. Errors of the making:
/// kInvalidArgument; of choose(): kNotFound, when the policy lacks an output.
MakeExploration tanh_gaussian(std::vector<double> low, std::vector<double> high);

}  // namespace troupe::acting
