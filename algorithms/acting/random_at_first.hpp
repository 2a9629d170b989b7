#pragma once
// Uniform actions at the beginning of a run, so that replay starts with something of everything, and then those of
// another exploration: what SAC, TD3 and most off-policy agents begin with.
#include <cstdint>
#include <vector>

#include <troupe/algorithms/acting/exploration.hpp>

namespace troupe::acting {

struct RandomAtFirstOptions {
  std::vector<double> low, high;  ///< the action's bounds
  std::int64_t env_steps = 0;     ///< over all environments of the run, each of which takes its share
};

/// `then` must give the action alone, float32[n], without extras. Errors of the making: kInvalidArgument, and those of
/// `then`.
MakeExploration random_at_first(RandomAtFirstOptions options, MakeExploration then);

}  // namespace troupe::acting
