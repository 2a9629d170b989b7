#pragma once
// FlashSAC as an algorithm that a configuration can name: algorithm = "flashsac", with its keys in [flashsac].
#include <cstdint>

#include <troupe/algorithms/acting/gaussian_draw.hpp>
#include <troupe/algorithms/agent/algorithm.hpp>
#include <troupe/algorithms/flashsac/options.hpp>
#include <troupe/core/config.hpp>

namespace troupe::learner::flashsac {

/// Beside the networks' and the step's, what the env actor and the adder do.
struct AgentOptions {
  Options learner;          ///< environment and importance_weights follow from the context
  std::int64_t n_step = 1;  ///< of the returns that the adder makes; more leave out the entropy of the steps between
  double discount = 0.99;   ///< gamma, a step
  std::int64_t random_env_steps = 10'000;     ///< at the beginning of the run
  acting::NoiseRepeats noise = {.most = 16};  ///< how long exploration holds its noise
};

/// Of [flashsac]. Defaults are those of AgentOptions.
ConfigSchema keys();
/// What the section says, of learners that take `steps` steps; 0: nobody knows how many. Errors: kInvalidArgument,
/// beginning with the key.
Result<AgentOptions> read(const ConfigSection& keys, std::int64_t steps);

/// Errors of what is returned: kInvalidArgument, when the environment's actions are not continuous or it shows images.
MakeAlgorithm algorithm(AgentOptions options);

}  // namespace troupe::learner::flashsac
