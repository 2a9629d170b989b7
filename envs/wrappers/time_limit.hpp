#pragma once
// Shorter episodes than the environment inside has.
#include <cstdint>

#include <troupe/envs/wrapper.hpp>

namespace troupe::envs {

/// An episode ends after `steps` >= 1 steps, unless the environment has ended it before. Its end is not the task's: the
/// last step has the discount of any other, 1, and what could have come after it counts. Errors of the wrapping:
/// kInvalidArgument when the environment's episodes are shorter.
Wrap time_limit(std::int64_t steps);

}  // namespace troupe::envs
