#pragma once
// The action of the greatest value, and now and then another one: the exploration of Q-learning and of bandits.
#include <cstdint>
#include <string>

#include <troupe/algorithms/acting/exploration.hpp>

namespace troupe::acting {

struct EpsilonGreedyOptions {
  std::string values = "value";  ///< the policy's output, float32[choices]
  std::int64_t choices = 0;      ///< of the environment's action (ActionSpec::choices)
  double epsilon = 0;            ///< share of steps in which any action is taken, all alike; 0: the greedy policy
};

/// Gives "action", int32[], without extras; of equal values the first. Errors of the making: kInvalidArgument, naming
/// the option; of choose(): kNotFound, when the policy has no such output.
MakeExploration epsilon_greedy(EpsilonGreedyOptions options);

}  // namespace troupe::acting
