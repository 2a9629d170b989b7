#pragma once
// The nodes of a run: their names, addresses and what each hosts. Everybody who can say where nodes come from (a
// cluster file, hosts.toml, TF_CONFIG, Slurm, Kubernetes, this host alone) ends in this one value; the launcher starts
// its nodes and a node finds itself in it by name. Values only.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/run/train_options.hpp>
#include <troupe/transport/address.hpp>

namespace troupe::apps {

/// What the first node of every cluster is called.
inline constexpr const char* kChiefName = "chief";
/// The host in the address of a node that is somewhere else at each start: the node finds out where it is from the
/// environment that it is started in, and tells the chief.
inline constexpr const char* kAnyHost = "0.0.0.0";
inline constexpr const char* kHostVariable = "TROUPE_HOST";

/// Some instances of a role.
struct HostedRole {
  std::string role;                     ///< as in the topology: "actor", "replay", ...
  std::vector<std::int64_t> instances;  ///< their indices, ascending
  bool operator==(const HostedRole&) const = default;
};

struct NodeSpec {
  std::string name;  ///< unique; transport::is_name(), as it goes into certificates and file names
  /// Where it listens, as the others reach it; port 0: any free one, which the node then tells the chief.
  transport::Address address{"127.0.0.1", 0};
  std::vector<HostedRole> roles;  ///< by name; a role at most once
  bool operator==(const NodeSpec&) const = default;
};

struct ClusterSpec {
  std::string run;              ///< name of the run; transport::is_name()
  std::vector<NodeSpec> nodes;  ///< in the order in which they were given, the same on every node; the first is "chief"

  const NodeSpec* find(std::string_view node) const;  ///< Null when there is none of that name.
  bool operator==(const ClusterSpec&) const = default;
};

/// A cluster, and which of its nodes this process is.
struct OwnPlace {
  ClusterSpec cluster;
  std::string node;
};

/// A host name or an IP address, by its characters; whether it resolves is found out when it is used.
bool is_host(std::string_view text);

}  // namespace troupe::apps
