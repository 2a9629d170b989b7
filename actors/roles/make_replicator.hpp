#pragma once
// From a group's options to the replicator that runs its replicas (learner/replicate/make_replicator.hpp).
#include <cstdint>
#include <memory>
#include <string>

#include <troupe/actors/roles/replica_options.hpp>
#include <troupe/collectives/communicator.hpp>
#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/learner/replicate/replicator.hpp>

namespace troupe::actors {

/// How a group's programs are compiled, the same for all of its members; device apart, which is each one's.
learner::CompileOptions compile_options(const ReplicaGroupOptions& options);

/// What its members compute on, see learner::device_of(). The options are checked.
std::vector<learner::Device> devices_of(const ReplicaGroupOptions& options);

/// How its gradients travel between processes.
DType wire_type(const ReplicaGroupOptions& options);

/// `replica` outlives what is returned, and so does the communicator, which "multi_worker" needs. name: the instance's,
/// for the log. Errors: those of the replicator; kInvalidArgument for one whose replicas are run by roles of their own.
Result<std::unique_ptr<learner::Replicator>> make_replicator(learner::Replica& replica,
                                                             const ReplicaGroupOptions& options, std::int64_t instance,
                                                             const std::string& name, std::int64_t first_step,
                                                             collectives::Communicator* communicator);

}  // namespace troupe::actors
