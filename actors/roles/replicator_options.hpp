#pragma once
// Makes of a group's options how its replicas run (learner/replicate/make_replicator.hpp).
#include <vector>

#include <troupe/actors/roles/replica_options.hpp>
#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/learner/replicate/make_replicator.hpp>

namespace troupe::actors {

/// How a group's programs are compiled. It is the same for all members, but for the device, which is each one's own.
learner::CompileOptions compile_options(const ReplicaGroupOptions& options);

/// What its members compute on, see learner::device_of(). The options are checked.
std::vector<learner::Device> devices_of(const ReplicaGroupOptions& options);

/// How its gradients travel between processes.
DType wire_type(const ReplicaGroupOptions& options);

/// How the group's replicas run, see Trainer. Errors: kInvalidArgument for a replicator whose replicas are run by roles
/// of their own.
Result<learner::ReplicatorOptions> replicator_options(const ReplicaGroupOptions& options);

}  // namespace troupe::actors
