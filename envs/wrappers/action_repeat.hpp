#pragma once
// Each action for several steps of the environment inside, which an agent takes for one.
#include <cstdint>

#include <troupe/envs/wrapper.hpp>

namespace troupe::envs {

/// A step takes its action `steps` >= 1 times, or until the episode ends. Its reward is the sum of theirs, so that the
/// return of an episode stays what it is, its discount the product; its observation is the last one. The spec's
/// episode_steps and control_dt are those of such steps.
Wrap action_repeat(std::int64_t steps);

}  // namespace troupe::envs
