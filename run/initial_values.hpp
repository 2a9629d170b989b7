#pragma once
// A saved model that a new run begins with: the parts of another run, or one file of safetensors (`troupe export`, or
// another program's with the same names). Parameters and states are taken by name, and nothing of optimisers.
#include <string>

#include <troupe/run/registry.hpp>
#include <troupe/run/train_options.hpp>

namespace troupe::apps {

/// What TrainOptions::begin_with does for `source`, a run's directory or a file. From a run it takes the part of the
/// same name, or its only one; a file is for every part that has its names. It is read once in a process, when the
/// first trainer begins. Errors of what is returned, each naming the source: kNotFound when it is not there, has no
/// such part or nothing of the network; kShapeMismatch naming the tensor; kCorrupt. Values of the network that the
/// source does not have begin as in any run; the log names them (TRP-W107).
actors::BeginWith begin_with(const Registry& registry, const std::string& source);

/// Checks that the source is there, and a file whole. Errors: kInvalidArgument, naming it; kIo.
Status check_initial(const std::string& source);

}  // namespace troupe::apps
