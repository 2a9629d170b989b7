#pragma once
// A replica group in this process: one call that builds its topology, runs it and says what came of it, for tests and
// benches. Runs with checkpoints, metrics and several processes are what a configuration is for ([replicas.NAME],
// docs/replicas.md).
#include <troupe/actors/roles/replica_model.hpp>
#include <troupe/actors/roles/replica_options.hpp>
#include <troupe/actors/roles/replica_results.hpp>
#include <troupe/core/error.hpp>

namespace troupe::actors {

/// Blocks until the group has taken its steps. `model.make` is called once for each instance of the role.
/// Errors: kInvalidArgument about the options; whatever made a replica fail.
Result<ReplicaSummary> train_replica(const ReplicaModel& model, const ReplicaGroupOptions& options);

}  // namespace troupe::actors
