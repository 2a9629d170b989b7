#pragma once
// Rewards of another size, as a critic with a support of fixed values wants them.
#include <troupe/envs/wrapper.hpp>

namespace troupe::envs {

/// Multiplies rewards by `factor`. For training only: the return of an episode is another one then.
Wrap reward_scale(double factor);

}  // namespace troupe::envs
