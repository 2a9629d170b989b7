#pragma once
// An environment whose action is float32, as policies give it, with observations as they are: for agents that see
// images. envs::flattened does the same for those that see a vector.
#include <troupe/core/error.hpp>
#include <troupe/envs/environment.hpp>

namespace troupe::envs {

/// What the environment's spec is then. Errors: kInvalidArgument when the action is not of bounded float64 or float32
/// numbers.
Result<EnvSpec> float_actions(const EnvSpec& spec);

/// make's environments, with such actions.
MakeEnvironment float_actions(MakeEnvironment make);

}  // namespace troupe::envs
