#pragma once
// An environment seen as agents on vectors of floats see it: its observation is one float32 column, "observation", made
// of all columns of the environment inside, and its action is float32 too (Acme's ConcatObservationWrapper and
// SinglePrecisionWrapper). The topology of such an agent puts it around the environments of its actors and evaluator.
// State, episodes and pictures are those of the environment inside.
#include <troupe/core/error.hpp>
#include <troupe/envs/environment.hpp>

namespace troupe::envs {

/// What the flattened environment's spec is. Errors: kInvalidArgument, naming the column: images (uint8) stay what they
/// are, and an action must be continuous.
Result<EnvSpec> flattened(const EnvSpec& spec);

/// make's environments, flattened: values are cast to float32 as they are and packed in the columns' order.
MakeEnvironment flattened(MakeEnvironment make);

}  // namespace troupe::envs
