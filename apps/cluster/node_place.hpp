#pragma once
// Where `troupe node` finds its place when no launcher hands it over: in a cluster file or the environment, with
// certificates from the authority in a run directory that all nodes share; or, for a further node, in such a directory
// or a join token.
#include <string>

#include <troupe/apps/cluster/cluster_spec.hpp>
#include <troupe/core/error.hpp>
#include <troupe/run/node.hpp>
#include <troupe/run/run_directory.hpp>

namespace troupe::apps {

/// The place of one node of a cluster, without credentials: identity, addresses and, on the chief, the placement.
actors::NodePlace place_in(const ClusterSpec& cluster, const NodeSpec& node, const RunDirectory& directory);

/// Adds what needs the run directory: the chief's address where the cluster has none, an answer for those who join.
/// Waits for up to a minute for a chief that has not begun. Errors: those of open_authority(), kDeadlineExceeded.
Status complete(actors::NodePlace& place);

/// What a further node is given.
struct Joining {
  std::string token;      ///< file
  std::string directory;  ///< run directory that it shares; the other of the two is empty
  std::string name;       ///< required with a directory; a token has one
  std::string role;       ///< that it will host, with a directory; a token has one
  std::int64_t instances = 1;
  transport::Address listen;
};

/// Whether a node that joins may have this name: it is not one of those in RUN/cluster.toml. Errors: kInvalidArgument.
Status check_joining_name(const std::filesystem::path& run_dir, const std::string& name);

/// Which of a run's elastic roles (run/run_topology.hpp) `wanted` is; empty: the only one. Errors: kInvalidArgument,
/// naming those that there are.
Result<std::string> elastic_role(const std::vector<std::string>& roles, const std::string& wanted);

/// A place for a further node, which hosts instances of an elastic role. With a token, `directory` keeps the
/// credentials that it was traded for: they are used again as long as they are valid and of the token's authority and
/// node, and those of another run, authority or node are as good as none. Without the file, which may have been deleted
/// after it was used, whatever valid credentials lie there are used. Errors: those of load_join_token(), join() and
/// await_authority(); kInvalidArgument (name; credentials of several nodes).
Result<actors::NodePlace> join_run(const Joining& joining, const RunDirectory& directory);

}  // namespace troupe::apps
