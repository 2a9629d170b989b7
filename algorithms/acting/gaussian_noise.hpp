#pragma once
// Gaussian noise around the action of a deterministic policy: the exploration of DDPG, D4PG and TD3.
#include <cstdint>
#include <vector>

#include <troupe/algorithms/acting/exploration.hpp>

namespace troupe::acting {

struct GaussianNoiseOptions {
  std::vector<double> low, high;  ///< the action's bounds, into which what is done is clipped
  double sigma = 0.3;             ///< the deviation, in units of half the action's range
  /// Above 0: within so many env steps of the run, of which each environment takes its share, the deviation goes
  /// linearly from `sigma` to `final_sigma`, where it stays (DrQ-v2). 0: it is `sigma` (Acme, TD3).
  std::int64_t sigma_env_steps = 0;
  double final_sigma = 0;
  std::int64_t env_steps_before = 0;  ///< that something else has chosen (random_at_first()); they count too
  /// Of the noise of two successive steps, in [0, 1): an AR(1) process, which DDPG's Ornstein-Uhlenbeck noise is
  /// (Lillicrap et al. 2016, arXiv 1509.02971; 1 - theta dt). Its deviation stays sigma; each episode begins anew.
  double correlation = 0;
};

/// Takes the policy's output "action", float32[n], and gives the action float32[n] without extras.
/// Errors of the making: kInvalidArgument, naming the option.
MakeExploration gaussian_noise(GaussianNoiseOptions options);

}  // namespace troupe::acting
