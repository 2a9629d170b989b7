#pragma once
// The hosts of `troupe up hosts.toml CONFIG`. The least that does:
//
//     hosts = ["gpu-1", "cpu-1", "alice@cpu-2"]       # ssh destinations
//
// Then [placement] says which nodes there are; env actors go to all hosts but the first (one node a host unless
// placement.actors.nodes asks for more), everything else goes to the first. With more to say:
//
//     port = 7600                                     # of the first node on each host, the others count up from it
//
//     [[hosts]]
//     ssh = "alice@gpu-1"                             # absent: this host, without ssh
//     address = "10.0.0.1"                            # as the nodes reach it; absent: the host of `ssh`
//     nodes = { learner = 1, replay = 2, gan = 2 }    # nodes of these roles, instead of [placement] and replicas.gan
//     troupe = "/opt/troupe/bin/troupe"               # the program there; absent: where it is here
//
// With a relay in the place of ssh (`troupe up --via`), `ssh` is what the relay calls the place, `address` may be
// absent for one that is known only when a node starts there, and without `port` nodes listen on any free one.
//
// The keys of `nodes` are those of [placement], and the names of replica groups, with "-ps" behind for their parameter
// servers. A role that no host names goes where it would go without `nodes`; the chief is on the first host, always.
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/apps/cluster/cluster_spec.hpp>

namespace troupe::apps {

struct Host {
  std::string ssh;                            ///< [user@]host, or a relay's place; empty: this host
  std::string address = "127.0.0.1";          ///< kAnyHost: known when a node starts there
  std::string troupe;                         ///< the program there; empty: at the same place as this one
  std::map<std::string, std::int64_t> nodes;  ///< by role
};

struct HostsFile {
  std::uint16_t port = 7600;  ///< of the first node on each host; 0, which no file says: any free ones
  std::vector<Host> hosts;
};

/// How the hosts are reached.
enum class Reach { kSsh, kRelay };

/// options: of the run, whose roles the hosts may name. Errors: kInvalidArgument with one line a mistake
/// ("hosts.toml:7: ..."); kNotFound, kIo.
Result<HostsFile> load_hosts(const std::filesystem::path& file, const actors::TrainOptions& options, Reach reach);
Result<HostsFile> parse_hosts(std::string_view text, const std::string& name, const actors::TrainOptions& options = {},
                              Reach reach = Reach::kSsh);

/// A cluster, and for each of its nodes the index of its host.
struct HostedCluster {
  ClusterSpec cluster;
  std::vector<std::size_t> hosts;
};

/// Errors: kInvalidArgument when a role has fewer instances than nodes, or a host more nodes than ports.
Result<HostedCluster> place_on_hosts(const actors::TrainOptions& options, std::string run, const HostsFile& file);

}  // namespace troupe::apps
