#pragma once
// A run as processes: `troupe train CONFIG --processes` (all on this host) and `troupe up HOSTS CONFIG`. Makes the
// run's authority and a certificate for each start of a node, and hands all to the launcher.
#include <string>
#include <vector>

#include <troupe/apps/cluster/hosts_file.hpp>
#include <troupe/core/config.hpp>
#include <troupe/run/run_directory.hpp>

namespace troupe::apps {

struct LaunchRun {
  RunDirectory directory;  ///< here; the caller has claimed it, where the chief is to be here for as long as it runs
  /// Where the run is recorded on the nodes' hosts; relative to the home folder on those that ssh reaches.
  std::string remote_directory;
  bool resume = false;
  std::string program;                  ///< its version: nodes of another refuse to start
  std::vector<std::string> command;     ///< Registry::command()
  std::vector<std::string> relay = {};  ///< LaunchOptions::ssh; empty: ssh
  bool quiet = false;                   ///< nodes print nothing but warnings and errors
};

/// Writes the configuration, the cluster (cluster.toml) and security/ to the directory and runs the nodes until the run
/// has ended; returns the chief's exit code. Blocks the calling thread; see launch(). Errors: those of placing the
/// nodes, of the authority, of launch(); kIo.
Result<int> launch_run(const LaunchRun& run, const Config& config, const actors::TrainOptions& options,
                       const HostsFile& hosts);

}  // namespace troupe::apps
