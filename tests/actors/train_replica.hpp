#pragma once
// Trains a replica group in the test's own process: one call that builds the group's topology, runs it to its end and
// returns what came of it. Users train by a configuration ([replicas.NAME]), which also records the run.
#include <memory>

#include <troupe/actors/control/runtime.hpp>
#include <troupe/actors/roles/replica_results.hpp>
#include <troupe/actors/roles/replica_topology.hpp>

namespace troupe::actors::testing {

/// Blocks until the group has taken its steps. Errors: kInvalidArgument about the options; whatever made a replica
/// fail.
inline Result<ReplicaSummary> train_replica(const ReplicaModel& model, const ReplicaGroupOptions& options) {
  Topology topology;
  TROUPE_TRY(add_replica_group(topology, options, model));
  RuntimeOptions how;
  how.seed = options.seed;
  how.write_cut = [](const std::shared_ptr<const Cut>&) { return Status(); };  // only its counters are wanted
  TROUPE_ASSIGN(const auto runtime, Runtime::make(std::move(topology), std::move(how)));
  TROUPE_TRY(runtime->run([] { return false; }));
  TROUPE_ASSIGN(const auto counters, runtime->checkpoint());
  return replica_summary(options.name, counters);
}

}  // namespace troupe::actors::testing
