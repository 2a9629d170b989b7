#pragma once
// From a group's options to the replicator that runs its replicas: the one list of them by name.
#include <cstdint>
#include <memory>

#include <troupe/actors/replica_options.hpp>
#include <troupe/core/error.hpp>
#include <troupe/learner/replicator.hpp>

namespace troupe::actors {

/// How a group's programs are compiled, the same for all of its members.
learner::CompileOptions compile_options(const ReplicaGroupOptions& options);

/// `replica` outlives what is returned. Errors: those of the replicator; kInvalidArgument for one that does not run its
/// replicas by itself.
Result<std::unique_ptr<learner::Replicator>> make_replicator(learner::Replica& replica,
                                                             const ReplicaGroupOptions& options,
                                                             std::int64_t first_step);

}  // namespace troupe::actors
