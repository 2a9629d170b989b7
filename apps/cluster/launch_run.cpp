#include <troupe/apps/cluster/launch_run.hpp>

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <troupe/apps/cluster/cluster_file.hpp>
#include <troupe/apps/cluster/launcher.hpp>
#include <troupe/apps/cluster/node_start.hpp>
#include <troupe/core/atomic_file.hpp>

namespace troupe::apps {
namespace {

std::vector<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> all;
  for (std::string word; stream >> word;) all.push_back(word);
  return all;
}

/// Where ssh finds this program on a host that is set up like this one: from the home folder on if it is in there.
std::filesystem::path place_of(const std::filesystem::path& program) {
  const char* const home = std::getenv("HOME");
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::canonical(home == nullptr ? "" : home, error);
  if (error) return program;
  const std::filesystem::path inside = program.lexically_relative(folder);
  return inside.empty() || *inside.begin() == ".." ? program : inside;
}

/// Every node has links to all others, of up to four lanes in each direction, and some files of its own. With fewer
/// descriptors new connections wait for ever; so the limit is raised as far as may be, and what is below is refused.
Status allow_descriptors(std::size_t nodes) {
  constexpr rlim_t kOwn = 32, kEachPeer = 8;
  const rlim_t needed = kOwn + kEachPeer * nodes;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return Error{Code::kIo, "the limit of open files cannot be read"};
  if (limit.rlim_cur >= needed) return {};
  if (limit.rlim_max < needed) {
    return Error{Code::kUnavailable,
                 fmt::format("ulimit -n: {} open files for each process, expected at least {} with {} nodes",
                             limit.rlim_max, needed, nodes)};
  }
  limit.rlim_cur = limit.rlim_max;  // children inherit it
  if (setrlimit(RLIMIT_NOFILE, &limit) == 0) return {};
  return Error{Code::kUnavailable, fmt::format("ulimit -n: {} cannot be raised to {}: {}", limit.rlim_cur,
                                               limit.rlim_max, std::strerror(errno))};
}

}  // namespace

Result<int> launch_run(const LaunchRun& run, const Config& config, const actors::TrainOptions& options,
                       const HostsFile& hosts) {
  const RunDirectory& directory = run.directory;
  if (hosts.hosts.front().ssh.empty()) {
    // The chief takes it for good. Before anything is written here: another run may be at work, or asleep.
    TROUPE_ASSIGN(const RunLock probe, RunLock::take(directory));
  }
  const std::string security = (directory.path / "security").string();
  // First of all: with it the directory is one of a run, whatever happens next.
  if (!run.resume) TROUPE_TRY(write_file_atomic(directory.config().string(), config.to_toml()));
  TROUPE_ASSIGN(const transport::Authority authority, open_authority(security, directory.id()));
  TROUPE_ASSIGN(const HostedCluster hosted, place_on_hosts(options, authority.run(), hosts));
  const ClusterSpec& cluster = hosted.cluster;
  TROUPE_TRY(allow_descriptors(cluster.nodes.size()));
  const std::string cluster_text = to_toml(cluster);
  TROUPE_TRY(write_file_atomic((directory.path / "cluster.toml").string(), cluster_text));
  if (!hosts.hosts.front().ssh.empty()) {  // else the chief writes it
    TROUPE_TRY(write_file_atomic((directory.path / "chief.address").string(),
                                 transport::to_string(cluster.nodes.front().address) + "\n"));
  }
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return Error{Code::kIo, fmt::format("/proc/self/exe: {}", error.message())};

  std::vector<NodeCommand> commands;
  for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
    const NodeSpec& node = cluster.nodes[i];
    const Host& host = hosts.hosts[hosted.hosts[i]];
    const bool here = host.ssh.empty();
    NodeCommand command{.name = node.name, .ssh = host.ssh};
    command.command = host.troupe.empty() ? std::vector{(here ? self : place_of(self)).string()} : words(host.troupe);
    command.tether = command.command;
    command.tether.push_back("tether");
    const std::string where = here ? directory.path.string() : run.remote_directory;
    command.command.insert(command.command.end(),
                           {"node", "--name", node.name, "--run-dir=" + where, "--from-launcher"});
    command.input = [&, i](int start_number) -> Result<std::string> {
      const NodeSpec& self_node = cluster.nodes[i];
      NodeStart start{.program = run.program,
                      .node = self_node.name,
                      .cluster = cluster_text,
                      .config = config.to_toml(),
                      .resume = run.resume && start_number == 0};
      TROUPE_ASSIGN(start.credentials,
                    authority.issue(identity_of(cluster, self_node), std::chrono::system_clock::now()));
      if (i == 0 && !hosts.hosts[hosted.hosts[i]].ssh.empty()) {
        TROUPE_ASSIGN(const auto key, read_file(security + "/authority.key", 1 << 16));
        start.authority_key.assign(reinterpret_cast<const char*>(key.data()), key.size());
      }
      return to_text(start);
    };
    commands.push_back(std::move(command));
  }
  LaunchOptions how;
  if (options.deterministic) how.restarts_max = 0;  // what a second process did could not be repeated
  return launch(std::move(commands), std::move(how));
}

}  // namespace troupe::apps
