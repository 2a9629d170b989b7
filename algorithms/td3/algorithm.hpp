#pragma once
// TD3 as an algorithm that a configuration can name: algorithm = "td3", with its keys in [td3].
#include <cstdint>

#include <troupe/algorithms/agent/algorithm.hpp>
#include <troupe/algorithms/td3/options.hpp>
#include <troupe/core/config.hpp>

namespace troupe::learner::td3 {

/// Beside the networks' and the step's, what the env actor and the adder do.
struct AgentOptions {
  Options learner;                         ///< environment and importance_weights follow from the context
  std::int64_t n_step = 1;                 ///< of the returns that the adder makes
  double discount = 0.99;                  ///< gamma, a step
  double sigma = 0.1;                      ///< of the exploration noise, in units of half the action's range
  std::int64_t random_env_steps = 25'000;  ///< at the beginning of the run
};

/// Of [td3]. Defaults are those of AgentOptions.
ConfigSchema keys();
/// What the section says, of learners that take `steps` steps; 0: nobody knows how many. Errors: kInvalidArgument,
/// beginning with the key.
Result<AgentOptions> read(const ConfigSection& keys, std::int64_t steps);

/// Errors of what is returned: kInvalidArgument, when the environment's actions are not continuous or it shows images.
MakeAlgorithm algorithm(AgentOptions options);

}  // namespace troupe::learner::td3
