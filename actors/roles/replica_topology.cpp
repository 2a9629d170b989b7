#include <troupe/actors/roles/replica_topology.hpp>

#include <utility>

#include <troupe/actors/roles/evaluation.hpp>
#include <troupe/actors/roles/evaluation_publication.hpp>
#include <troupe/actors/roles/evaluator.hpp>
#include <troupe/actors/roles/input_feed.hpp>
#include <troupe/actors/roles/replicator_options.hpp>
#include <troupe/actors/roles/split_gan.hpp>
#include <troupe/actors/roles/trainer.hpp>

namespace troupe::actors {

ParameterServerOptions parameter_server_options(const ReplicaGroupOptions& group) {
  ParameterServerOptions server;
  server.name = group.name;
  server.workers = group.count;
  server.batch = group.batch_size;
  server.compile = compile_options(group);
  server.devices = devices_of(group);
  server.shards = group.ps_shards;
  server.partition = group.ps_partition == "min_size"   ? learner::ParamPartition::kMinSize
                     : group.ps_partition == "max_size" ? learner::ParamPartition::kMaxSize
                                                        : learner::ParamPartition::kPartitioned;
  server.transfer = wire_type(group);
  server.stale = group.staleness == "drop"    ? learner::StalePolicy::kDrop
                 : group.staleness == "scale" ? learner::StalePolicy::kScale
                                              : learner::StalePolicy::kNone;
  server.max_staleness = group.max_staleness;
  server.synchronous = group.replicator == "sync_replicas";
  server.backup_workers = group.backup_workers;
  server.updates = group.steps;
  return server;
}

RoleSpec replica_trainer(std::string name, const TrainerOptions& options) {
  RoleSpec spec = Trainer::spec(std::move(name), options);
  spec.restart.from = RestartFrom::kLastCut;
  return spec;
}

Status add_replica_group(Topology& topology, const ReplicaGroupOptions& group, const ReplicaModel& model,
                         PictureSink* pictures, const BeginWith& begin_with) {
  std::function<Status(learner::Program&)> begin;
  if (begin_with)
    begin = [begin_with, name = group.name](learner::Program& program) { return begin_with(name, program); };
  TROUPE_TRY(check(group, "replicas." + group.name));
  const std::size_t before = topology.roles.size();
  if (has_parameter_server(group)) {
    // The roles are the parameter server's own.
    ParameterServerOptions server = parameter_server_options(group);
    server.feed = input_feed(model.make);
    server.publication = evaluation_publication(model, group.evaluate_every_steps);
    server.begin_with = begin;
    TROUPE_TRY(add_parameter_server(topology, server));
  } else if (is_split_gan(group)) {
    TROUPE_TRY(add_split_gan(topology, group, model, begin));
  } else {
    TROUPE_ASSIGN(const learner::ReplicatorOptions how, replicator_options(group));
    topology.roles.push_back(
        replica_trainer(group.name, {.feed = input_feed(model.make),
                                     .publication = evaluation_publication(model, group.evaluate_every_steps),
                                     .how = how,
                                     .count = instances(group),
                                     .max_steps = group.steps,
                                     .begin_with = begin}));
  }
  const std::string evaluator = evaluator_name(group);
  if (model.make_evaluation) {
    topology.roles.push_back(Evaluator::spec(evaluator, {.examine = examine_by_data(model),
                                                         .last = group.steps,
                                                         .trainer = group.name,
                                                         .pictures = pictures,
                                                         .has_listener = topology.reports.has_value()}));
    topology.roles.back().restart.from = RestartFrom::kLastCut;
    topology.channels.push_back({group.name, kPublishPort, evaluator, "parameters", 1});
    if (topology.reports) topology.channels.push_back(evaluations_channel(evaluator, topology.reports->role));
  }
  for (std::size_t i = before; i < topology.roles.size(); ++i) {
    RoleSpec& role = topology.roles[i];
    role.part = group.name;
    role.completes_run = role.name == (model.make_evaluation ? evaluator : group.name);
  }
  return {};
}

}  // namespace troupe::actors
