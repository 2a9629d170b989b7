#include <troupe/apps/cluster/launch_run.hpp>

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <troupe/apps/cluster/cluster_file.hpp>
#include <troupe/apps/cluster/detail/shell.hpp>
#include <troupe/apps/cluster/launcher.hpp>
#include <troupe/apps/cluster/node_start.hpp>
#include <troupe/core/atomic_file.hpp>
#include <troupe/core/log.hpp>
#include <troupe/run/no_metrics.hpp>
#include <troupe/run/node.hpp>

namespace troupe::apps {
namespace {

/// Where ssh finds this program on a host that is set up like this one: its files are found from the home folder on if
/// they are in there.
std::vector<std::string> place_of(std::vector<std::string> program) {
  const char* const home = std::getenv("HOME");
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::canonical(home == nullptr ? "" : home, error);
  if (error) return program;
  for (std::string& word : program) {
    const std::filesystem::path inside = std::filesystem::path(word).lexically_relative(folder);
    if (word.starts_with('/') && !inside.empty() && *inside.begin() != "..") word = inside.string();
  }
  return program;
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

/// Where the chief is, which the launcher may know only once the chief says so.
class ChiefPlace {
 public:
  ChiefPlace(const RunDirectory& directory, const HostsFile& hosts, transport::Address planned)
      : folder_(directory.path),
        file_(directory.chief_address().string()),
        planned_(std::move(planned)),
        is_here_(hosts.hosts.front().ssh.empty()),
        // Where all nodes see the chief's run directory they read there which port it has found.
        announces_(planned_.port == 0 &&
                   std::ranges::any_of(hosts.hosts, [](const Host& host) { return !host.ssh.empty(); })) {}

  bool is_here() const { return is_here_; }
  bool announces() const { return announces_; }
  const std::string& announced_at() const { return announced_at_; }  ///< Empty: it has not yet.
  Status note_planned() const { return announces_ ? Status() : note(planned_); }
  /// Where it listened in an earlier start of the run, if that is known and nobody has planned it. Its file goes: nodes
  /// wait for the new one.
  std::string forget_earlier() const {
    if (!is_here_ || planned_.port != 0) return "";
    const auto before = actors::wait_for_chief(folder_, Duration(0));
    std::error_code ignored;
    std::filesystem::remove(file_, ignored);
    return before.ok() ? transport::to_string(*before) : "";
  }

  /// That again, where no chief has come to write its own: it says what to ask, and in vain, for `status` and `stop`.
  void remember(const std::string& earlier) const {
    std::error_code ignored;
    if (earlier.empty() || std::filesystem::exists(file_, ignored)) return;
    if (const Status kept = write_file_atomic(file_, earlier + "\n"); !kept.ok()) log::warn("{}", kept.error().message);
  }

  ChiefLine hear(std::string_view line) {
    const std::optional<transport::Address> address = announced(line);
    if (!address) return ChiefLine::kOther;
    if (const Status noted = note(*address); !noted.ok()) log::warn("{}", noted.error().message);
    const std::string before = std::exchange(announced_at_, transport::to_string(*address));
    return before.empty() || before == announced_at_ ? ChiefLine::kListens : ChiefLine::kMoved;
  }

 private:
  /// Here for `status` and `stop`; a chief on this host writes it itself.
  Status note(const transport::Address& address) const {
    return is_here_ ? Status() : write_file_atomic(file_, transport::to_string(address) + "\n");
  }

  const std::filesystem::path folder_;
  const std::string file_;
  const transport::Address planned_;
  const bool is_here_, announces_;
  std::string announced_at_;
};

/// As the chief gives up single instances (RestartPolicy): of some roles all are needed, of others one.
bool goes_on_without(const std::vector<std::string>& down, const ClusterSpec& cluster,
                     const actors::Topology& topology) {
  return std::ranges::all_of(topology.roles, [&](const actors::RoleSpec& role) {
    bool lost = false, left = false;
    for (const NodeSpec& node : cluster.nodes) {
      if (std::ranges::find(node.roles, role.name, &HostedRole::role) == node.roles.end()) continue;
      (std::ranges::find(down, node.name) != down.end() ? lost : left) = true;
    }
    return !lost || (left && (role.restart.quarantine || role.elastic));
  });
}

}  // namespace

Result<int> launch_run(const LaunchRun& run, const Config& config, const actors::TrainOptions& options,
                       const HostsFile& hosts) {
  const RunDirectory& directory = run.directory;
  if (hosts.hosts.front().ssh.empty() && run.resume) TROUPE_TRY(check_resumable(directory, true));
  const std::string security = (directory.path / "security").string();
  // First of all: with it the directory is one of a run, whatever happens next.
  if (!run.resume) TROUPE_TRY(write_config(directory, config));
  TROUPE_ASSIGN(const transport::Authority authority, open_authority(security, directory.id()));
  TROUPE_ASSIGN(const HostedCluster hosted, place_on_hosts(options, authority.run(), hosts));
  const ClusterSpec& cluster = hosted.cluster;
  TROUPE_TRY(allow_descriptors(cluster.nodes.size()));
  const std::string cluster_text = to_toml(cluster);
  TROUPE_TRY(write_file_atomic((directory.path / "cluster.toml").string(), cluster_text));
  ChiefPlace chief(directory, hosts, cluster.nodes.front().address);
  TROUPE_TRY(chief.note_planned());
  const std::string before = chief.forget_earlier();

  std::vector<NodeCommand> commands;
  for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
    const NodeSpec& node = cluster.nodes[i];
    const Host& host = hosts.hosts[hosted.hosts[i]];
    const bool here = host.ssh.empty();
    NodeCommand command{.name = node.name, .ssh = host.ssh};
    command.command = !host.troupe.empty() ? detail::words(host.troupe) : here ? run.command : place_of(run.command);
    command.tether = command.command;
    command.tether.push_back("tether");
    const std::string where = here ? directory.path.string() : run.remote_directory;
    command.command.insert(command.command.end(),
                           {"node", "--name", node.name, "--run-dir=" + where, "--from-launcher"});
    if (run.quiet) command.command.push_back("--quiet");
    command.input = [&, i](int start_number) -> Result<std::string> {
      const NodeSpec& self_node = cluster.nodes[i];
      NodeStart start{.program = run.program,
                      .node = self_node.name,
                      .cluster = cluster_text,
                      .config = config.to_toml(),
                      .resume = run.resume && start_number == 0,
                      .chief = i == 0 ? "" : chief.announced_at(),
                      .announces = i == 0 && chief.announces(),
                      .begun = i == 0 && !chief.announced_at().empty(),
                      .locked = i == 0 && chief.is_here(),
                      .before = i == 0 && start_number == 0 ? before : ""};
      TROUPE_ASSIGN(start.credentials,
                    authority.issue(identity_of(cluster, self_node), std::chrono::system_clock::now()));
      if (i == 0 && !chief.is_here()) {
        TROUPE_ASSIGN(const auto key, read_file(security + "/authority.key", 1 << 16));
        start.authority_key.assign(reinterpret_cast<const char*>(key.data()), key.size());
      }
      return to_text(start);
    };
    commands.push_back(std::move(command));
  }
  LaunchOptions how;
  if (!run.relay.empty()) how.ssh = run.relay;
  if (chief.announces()) how.chief_line = [&](std::string_view line) { return chief.hear(line); };
  how.goes_on_without = [&](const std::vector<std::string>& down) {
    actors::NoMetrics unused;
    const auto topology = actors::node_topology(options, {unused}, 0);
    return topology.ok() && goes_on_without(down, cluster, *topology);
  };
  if (options.deterministic) how.restarts_max = 0;  // what a second process did could not be repeated
  auto ended = launch(std::move(commands), std::move(how));
  chief.remember(before);
  return ended;
}

}  // namespace troupe::apps
