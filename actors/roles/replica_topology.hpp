#pragma once
// A replica group as roles and channels of a topology, next to whatever else is in it:
//
//   NAME x n --parameters (latest)--> NAME-evaluator
//                                          --evaluations (stream)--> the metrics role, if the topology has one
//            --pull, push (request)--> NAME-ps x shards, for parameter servers (actors/roles/parameter_server.hpp)
//            --fakes (stream)--> NAME-discriminator x n, for a GAN in two (actors/roles/split_gan.hpp)
#include <string>

#include <troupe/actors/roles/parameter_server.hpp>
#include <troupe/actors/roles/replica_model.hpp>
#include <troupe/actors/roles/replica_options.hpp>
#include <troupe/actors/roles/trainer.hpp>
#include <troupe/actors/runtime/topology.hpp>
#include <troupe/core/error.hpp>
#include <troupe/core/picture.hpp>

namespace troupe::actors {

std::string evaluator_name(const ReplicaGroupOptions& group);
std::string parameter_server_name(const ReplicaGroupOptions& group);
std::string discriminator_name(const ReplicaGroupOptions& group);

/// How such a group's shards and workers run; what they train and publish is up to who runs them.
ParameterServerOptions parameter_server_options(const ReplicaGroupOptions& group);

/// A role that trains a group's replicas, and goes on from the last cut when it is restarted.
RoleSpec replica_trainer(std::string name, const TrainerOptions& options);

/// Appends the group. It completes its part of the run (RoleSpec::part) when the parameters of its last step are
/// evaluated or, without an evaluator, when they are there. pictures: where what the evaluator shows goes; outlives the
/// roles; null: nowhere. Errors: kInvalidArgument, see check().
/// begin_with: what a new group begins with; null: nothing.
Status add_replica_group(Topology& topology, const ReplicaGroupOptions& group, const ReplicaModel& model,
                         PictureSink* pictures = nullptr, const BeginWith& begin_with = nullptr);

}  // namespace troupe::actors
