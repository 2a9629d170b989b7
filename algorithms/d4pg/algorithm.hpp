#pragma once
// D4PG as an algorithm that a configuration can name: algorithm = "d4pg", with its keys in [d4pg].
#include <troupe/algorithms/agent/algorithm.hpp>
#include <troupe/algorithms/d4pg/options.hpp>
#include <troupe/core/config.hpp>

namespace troupe::learner::d4pg {

/// Beside the networks' and the step's, what the env actor and the adder do.
struct AgentOptions {
  Options learner;          ///< environment, encoder.pixels and importance_weights follow from the context
  std::int64_t n_step = 5;  ///< of the returns that the adder makes
  double discount = 0.99;   ///< gamma, a step
  double sigma = 0.3;       ///< of the exploration noise, in units of half the action's range
  double correlation = 0;   ///< of the noise of two successive steps
};

/// Of [d4pg]. Defaults are those of AgentOptions.
ConfigSchema keys();
/// What the section says, of learners that take `steps` steps; 0: nobody knows how many. Errors: kInvalidArgument,
/// beginning with the key.
Result<AgentOptions> read(const ConfigSection& keys, std::int64_t steps);

/// Takes states, all columns as one vector, or one image "pixels" and nothing else. Errors of what is returned:
/// kInvalidArgument, when the environment's actions are not continuous, it shows images otherwise, or those are to be
/// normalised.
MakeAlgorithm algorithm(AgentOptions options);

}  // namespace troupe::learner::d4pg
