#pragma once
// DrQ-v2 as an algorithm that a configuration can name: algorithm = "drqv2", with its keys in [drqv2].
#include <cstdint>

#include <troupe/algorithms/agent/algorithm.hpp>
#include <troupe/algorithms/drqv2/options.hpp>
#include <troupe/core/config.hpp>

namespace troupe::learner::drqv2 {

/// Beside the networks' and the step's, what the env actor and the adder do.
struct AgentOptions {
  Options learner;          ///< encoder.pixels, environment and importance_weights follow from the context
  std::int64_t n_step = 3;  ///< of the returns that the adder makes
  double discount = 0.99;   ///< gamma, a step
  std::int64_t random_env_steps = 4'000;  ///< at the beginning of the run
};

/// Of [drqv2]. Defaults are those of AgentOptions.
ConfigSchema keys();
/// What the section says, of learners that take `steps` steps; 0: nobody knows how many. Errors: kInvalidArgument,
/// beginning with the key.
Result<AgentOptions> read(const ConfigSection& keys, std::int64_t steps);

/// Errors of what is returned: kInvalidArgument, when the environment shows anything but one image "pixels", or its
/// actions are not continuous.
MakeAlgorithm algorithm(AgentOptions options);

}  // namespace troupe::learner::drqv2
