#pragma once
// A draw from the Gaussian that a policy gives, brought into the action's bounds in one of two ways. Both take the
// policy's outputs "mean" and "stddev", float32[n], draw a number, bring it to x in [-1, 1], and give the action
// float32[n], low + (x + 1) / 2 * (high - low), without extras. Errors of the making: kInvalidArgument; of choose():
// kNotFound, when the policy lacks an output.
#include <cstdint>
#include <vector>

#include <troupe/algorithms/acting/exploration.hpp>

namespace troupe::acting {

/// How long a draw's noise, the number of deviations from the mean, is held: n steps with a probability in proportion
/// to n^-exponent, at most `most`, also across episodes. So an agent goes in one direction for a while (FlashSAC, after
/// Dabney et al. 2021, arXiv 2006.01782).
struct NoiseRepeats {
  std::int64_t most = 1;  ///< 1: each step draws
  double exponent = 2;
};

/// x = tanh(draw): the policy of SAC (Haarnoja et al. 2018, arXiv 1812.05905, appendix C).
MakeExploration tanh_gaussian(std::vector<double> low, std::vector<double> high, NoiseRepeats repeats = {});
/// x is the number in [-1, 1] that is nearest to the draw: the policy of MPO, as Acme's environments clip it.
MakeExploration clipped_gaussian(std::vector<double> low, std::vector<double> high);

}  // namespace troupe::acting
