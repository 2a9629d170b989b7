#pragma once
// The models that a configuration can name, each with its data: algorithms/classifier and algorithms/sngan on
// Fashion-MNIST or on images made up for trials.
#include <troupe/actors/roles/replica_model.hpp>
#include <troupe/actors/roles/replica_options.hpp>
#include <troupe/core/error.hpp>

namespace troupe::actors {

/// Data is read when the first replica is made, once for all replicas of a process. Errors: kInvalidArgument for an
/// unknown model or data.
Result<ReplicaModel> shipped_model(const ReplicaModelOptions& options, const ReplicaGroupOptions& group);

}  // namespace troupe::actors
