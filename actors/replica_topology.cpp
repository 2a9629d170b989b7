#include <troupe/actors/replica_topology.hpp>

#include <utility>

#include <troupe/actors/replica_actor.hpp>
#include <troupe/actors/replica_evaluator.hpp>

namespace troupe::actors {

std::string evaluator_name(const ReplicaGroupOptions& group) { return group.name + "-evaluator"; }
std::string parameter_server_name(const ReplicaGroupOptions& group) { return group.name + "-ps"; }

Status add_replica_group(Topology& topology, const ReplicaGroupOptions& group, const ReplicaModel& model) {
  TROUPE_TRY(check(group));
  RoleSpec replicas = ReplicaActor::spec({.model = model, .group = group});
  replicas.part = group.name;
  replicas.completes_run = !model.make_evaluation;
  topology.roles.push_back(std::move(replicas));
  if (!model.make_evaluation) return {};
  RoleSpec evaluator =
      ReplicaEvaluator::spec({.name = evaluator_name(group), .model = model, .last_step = group.steps});
  evaluator.part = group.name;
  evaluator.completes_run = true;
  topology.channels.push_back({group.name, "parameters", evaluator.name, "parameters", 1});
  topology.roles.push_back(std::move(evaluator));
  return {};
}

}  // namespace troupe::actors
