#pragma once
// Distributional MPO as an algorithm that a configuration can name: algorithm = "dmpo", with its keys in [dmpo].
#include <cstdint>

#include <troupe/algorithms/agent/algorithm.hpp>
#include <troupe/algorithms/dmpo/options.hpp>
#include <troupe/core/config.hpp>

namespace troupe::learner::dmpo {

/// Beside the networks' and the step's, what the adder does.
struct AgentOptions {
  Options learner;          ///< environment and importance_weights follow from the context
  std::int64_t n_step = 5;  ///< of the returns that the adder makes
  double discount = 0.99;   ///< gamma, a step
};

/// Of [dmpo]. Defaults are those of AgentOptions.
ConfigSchema keys();
/// What the section says, of learners that take `steps` steps; 0: nobody knows how many. Errors: kInvalidArgument,
/// beginning with the key.
Result<AgentOptions> read(const ConfigSection& keys, std::int64_t steps);

/// Errors of what is returned: kInvalidArgument, when the environment's actions are not continuous or it shows images.
MakeAlgorithm algorithm(AgentOptions options);

}  // namespace troupe::learner::dmpo
