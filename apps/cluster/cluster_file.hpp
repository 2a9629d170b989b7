#pragma once
// A cluster as a file, for `troupe node --cluster FILE --name NAME`. Written by hand, or by to_toml():
//
//     run = "cartpole"
//
//     [[nodes]]                          # in the same order on every node
//     name = "chief"                     # the first one//     host = "10.0.0.1"                  # as the other nodes
//     reach it port = 7600 roles = { metrics = [0], learner = [0] }
//
//     [[nodes]]
//     name = "actors"
//     host = "10.0.0.2"
//     port = 7600
//     roles = { actor = [0, 1] }
#include <filesystem>
#include <string>
#include <string_view>

#include <troupe/apps/cluster/cluster_spec.hpp>

namespace troupe::apps {

/// Reads and checks a cluster against the roles of a run: names and addresses are unique, every instance of every role
/// is on exactly one node, and the metrics are the chief's.
/// Errors: kInvalidArgument with one line a mistake ("cluster.toml:7: ..."); kNotFound, kIo.
Result<ClusterSpec> load_cluster(const std::filesystem::path& file, const actors::TrainOptions& options);
Result<ClusterSpec> parse_cluster(std::string_view text, const std::string& name, const actors::TrainOptions& options);

/// The names of the nodes in a cluster file, without a look at the rest of it: for who joins the run beside them. None
/// when there is no such file. Errors: kInvalidArgument, kIo.
Result<std::vector<std::string>> planned_names(const std::filesystem::path& file);

/// The text that reads back as the same value.
std::string to_toml(const ClusterSpec& cluster);

}  // namespace troupe::apps
