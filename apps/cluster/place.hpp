#pragma once
// Which node hosts what: from the [placement] of a configuration, or from a number of places that somebody else has
// reserved (Slurm's tasks, a Kubernetes job's pods). The rule is one: a node hosts instances of one role, those of a
// role are dealt in turns to its nodes, and what has no node of its own is with the chief.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <troupe/apps/cluster/cluster_spec.hpp>
#include <troupe/run/role_counts.hpp>

namespace troupe::apps {

/// Nodes by [placement], all on this host with ports of their own choice: chief, replay, learner, parameters,
/// evaluator, actors. A role of several nodes has them numbered: actors-0, actors-1. Errors: kInvalidArgument when a
/// role has fewer instances than nodes.
Result<ClusterSpec> place(const actors::TrainOptions& options, std::string run);
/// The same for roles whose numbers of nodes somebody has changed.
Result<ClusterSpec> place(const std::vector<actors::RoleCount>& roles, std::string run);

/// Nodes for places that are there already, one each and in their order: first all that [placement] asks for besides
/// env actors, then env actors on what is left, however many placement.actors.nodes says (0: none, they are with the
/// chief). `whose` names the places in messages: "Slurm tasks".
/// Errors: kInvalidArgument when there are too few or too many, saying how many are needed for what.
Result<ClusterSpec> place_on(const actors::TrainOptions& options, std::string run,
                             const std::vector<transport::Address>& places, const std::string& whose);

/// Indices 0 .. count-1 dealt in turns: hand i gets i, i + hands, ... All of `hands` >= 1 lists, the last may be empty.
std::vector<std::vector<std::int64_t>> deal(std::int64_t count, std::size_t hands);

/// Puts a role on a node: further instances of one that it hosts, or a role that it did not host yet.
void add_role(NodeSpec& node, const std::string& role, const std::vector<std::int64_t>& instances);

}  // namespace troupe::apps
