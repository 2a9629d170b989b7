#include <troupe/run/train_replica.hpp>

#include <memory>

#include <troupe/actors/control/runtime.hpp>
#include <troupe/actors/roles/replica_topology.hpp>

namespace troupe::actors {

Result<ReplicaSummary> train_replica(const ReplicaModel& model, const ReplicaGroupOptions& options) {
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

}  // namespace troupe::actors
