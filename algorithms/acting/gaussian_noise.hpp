#pragma once
// Gaussian noise around the action of a deterministic policy: the exploration of DDPG, D4PG and TD3.
#include <vector>

#include <troupe/algorithms/acting/exploration.hpp>

namespace troupe::acting {

struct GaussianNoiseOptions {
  std::vector<double> low, high;  ///< the action's bounds, into which what is done is clipped
  double sigma = 0.3;             ///< the deviation, in units of half the action's range (Acme: fixed, not annealed)
  /// Of the noise of two successive steps, in [0, 1): an AR(1) process, which DDPG's Ornstein-Uhlenbeck noise is
  /// (Lillicrap et al. 2016, arXiv 1509.02971; 1 - theta dt). Its deviation stays sigma; each episode begins anew.
  double correlation = 0;
};

/// Takes the policy's output "action", float32[n], and gives the action float32[n] without extras.
/// Errors of the making: kInvalidArgument, naming the option.
MakeExploration gaussian_noise(GaussianNoiseOptions options);

}  // namespace troupe::acting
