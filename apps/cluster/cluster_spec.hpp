#pragma once
// The nodes of a run: their names, addresses and what each hosts. Everybody who can say where nodes come from (a
// cluster file, hosts.toml, TF_CONFIG, Slurm, Kubernetes, this host alone) ends in this one value; the launcher starts
// its nodes and a node finds itself in it by name. Values only.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/actors/train_options.hpp>
#include <troupe/core/error.hpp>

namespace troupe::apps {

/// What the first node of every cluster is called.
inline constexpr const char* kChiefName = "chief";

/// Where a node listens, as the others reach it.
struct Address {
  std::string host = "127.0.0.1";  ///< a name, an IPv4 or (without brackets) an IPv6 address
  std::uint16_t port = 0;          ///< 0: any free one, which the node then tells the chief
  bool operator==(const Address&) const = default;
};

/// Some instances of a role.
struct HostedRole {
  std::string role;                     ///< as in the topology: "actor", "replay", ...
  std::vector<std::int64_t> instances;  ///< their indices, ascending
  bool operator==(const HostedRole&) const = default;
};

struct NodeSpec {
  std::string name;  ///< unique; transport::is_name(), as it goes into certificates and file names
  Address address;
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

/// How many instances of a role a run has.
struct RoleCount {
  std::string role;
  std::int64_t count = 0;
};

/// The roles of a run besides metrics (which is always the chief's), in the order in which nodes are made for them.
std::vector<RoleCount> role_counts(const actors::TrainOptions& options);

/// A host name or an IP address, by its characters; whether it resolves is found out when it is used.
bool is_host(std::string_view text);

/// "10.0.0.1:7600", "gpu-1:7600", "[fe80::1]:7600". Errors: kInvalidArgument, e.g. `"gpu-1": expected HOST:PORT`.
Result<Address> parse_address(std::string_view text);
std::string to_string(const Address& address);

}  // namespace troupe::apps
