#include <troupe/apps/cluster/hosts_file.hpp>

#include <algorithm>
#include <utility>
#include <variant>

#include <fmt/core.h>

#include <troupe/apps/cluster/detail/mistakes.hpp>
#include <troupe/apps/cluster/place.hpp>
#include <troupe/core/text.hpp>

namespace troupe::apps {
namespace {

constexpr std::size_t kHostsMax = 4096;

/// What a host may name: the nodes of a role that has a say in the configuration.
std::vector<std::string> names_of_nodes(const actors::TrainOptions& options) {
  std::vector<std::string> names;
  for (const actors::RoleCount& role : actors::role_counts(options)) {
    if (!role.key.empty()) names.push_back(role.node);
  }
  std::ranges::sort(names);
  return names;
}

/// It becomes an argument of ssh, so it must not look like an option; nor may a shell find anything in it.
bool is_destination(std::string_view text) {
  const std::size_t at = text.find('@');
  return at == std::string_view::npos ? is_host(text) : is_host(text.substr(0, at)) && is_host(text.substr(at + 1));
}

class HostsReader {
 public:
  HostsReader(const std::string& name, const actors::TrainOptions& options, Reach reach)
      : mistakes_(printable(name, 4096)), roles_(names_of_nodes(options)), relayed_(reach == Reach::kRelay) {
    if (relayed_) out_.port = 0;
  }

  Result<HostsFile> read(const TomlValue& file) {
    mistakes_.is_table(file, "a list of hosts", {"hosts", "port"});
    if (const std::int64_t* port = mistakes_.integer(file, "port")) {
      out_.port = static_cast<std::uint16_t>(*port);
      if (*port < 1 || *port > 65535) {
        mistakes_.add(file.find("port")->line, fmt::format("port: got {}, expected 1 .. 65535", *port));
      }
    }
    if (file.find("hosts") == nullptr) mistakes_.add(0, "missing key hosts: a list of hosts, or tables [[hosts]]");
    if (const TomlValue::List* hosts = mistakes_.list(file, "hosts")) {
      if (hosts->empty() || hosts->size() > kHostsMax) {
        mistakes_.add(file.find("hosts")->line,
                      fmt::format("got {} hosts, expected 1 .. {}", hosts->size(), kHostsMax));
      } else {
        for (const TomlValue& host : *hosts) read_host(host);
      }
    }
    const bool unreachable = std::any_of(out_.hosts.begin(), out_.hosts.end(),
                                         [](const Host& host) { return host.address == Host().address; });
    if (unreachable && out_.hosts.size() > 1 && !mistakes_.any()) {
      mistakes_.add(
          0, fmt::format("the other hosts cannot reach {}: give every host an address of its own", Host().address));
    }
    TROUPE_TRY(mistakes_.report());
    return std::move(out_);
  }

 private:
  void read_host(const TomlValue& value) {
    Host host;
    if (const std::string* ssh = std::get_if<std::string>(&value.value)) {
      set_ssh(host, *ssh, value.line);
    } else if (mistakes_.is_table(value, "a host", {"ssh", "address", "nodes", "troupe"})) {
      if (const std::string* text = mistakes_.text(value, "ssh")) set_ssh(host, *text, value.find("ssh")->line);
      if (const std::string* text = mistakes_.text(value, "address")) {
        host.address = *text;
        if (!is_host(*text)) {
          mistakes_.add(value.find("address")->line,
                        fmt::format("address \"{}\": expected a host name or an IP address", printable(*text)));
        }
      }
      if (const std::string* text = mistakes_.text(value, "troupe")) host.troupe = *text;
      if (const TomlMember* nodes = value.find("nodes")) read_nodes(nodes->value, host);
    }
    const bool twice = std::any_of(out_.hosts.begin(), out_.hosts.end(),
                                   [&](const Host& other) { return other.address == host.address; });
    if (twice && host.address != kAnyHost) {
      mistakes_.add(value.line,
                    fmt::format("address \"{}\": there is a host of that address already", printable(host.address)));
    }
    out_.hosts.push_back(std::move(host));
  }

  void set_ssh(Host& host, const std::string& text, std::size_t line) {
    host.ssh = text;
    host.address = relayed_ ? kAnyHost : text.substr(text.find('@') + 1);  // all of it when there is none
    if (!is_destination(text)) {
      mistakes_.add(line, fmt::format("ssh \"{}\": expected HOST or USER@HOST", printable(text)));
    }
  }

  void read_nodes(const TomlValue& nodes, Host& host) {
    if (!mistakes_.is_table(nodes, "nodes", roles_)) return;
    for (const TomlMember& member : std::get<TomlValue::Table>(nodes.value)) {
      const std::int64_t* count = mistakes_.integer(nodes, member.name);
      if (count == nullptr) continue;
      if (*count < 0 || *count > 1024) {
        mistakes_.add(member.line, fmt::format("nodes.{}: got {}, expected 0 .. 1024", printable(member.name), *count));
      }
      host.nodes[member.name] = *count;
    }
  }

  detail::Mistakes mistakes_;
  const std::vector<std::string> roles_;
  const bool relayed_;
  HostsFile out_;
};

}  // namespace

Result<HostsFile> parse_hosts(std::string_view text, const std::string& name, const actors::TrainOptions& options,
                              Reach reach) {
  TROUPE_ASSIGN(const TomlValue file, parse_toml(text, name));
  return HostsReader(name, options, reach).read(file);
}

Result<HostsFile> load_hosts(const std::filesystem::path& file, const actors::TrainOptions& options, Reach reach) {
  TROUPE_ASSIGN(const std::string text, read_config_text(file));
  return parse_hosts(text, file.string(), options, reach);
}

Result<HostedCluster> place_on_hosts(const actors::TrainOptions& options, std::string run, const HostsFile& file) {
  const std::vector<Host>& hosts = file.hosts;
  // For each role the host of each of its nodes, in turns; named roles follow `nodes`, the others the default.
  std::map<std::string, std::vector<std::size_t>> where;
  std::vector<actors::RoleCount> roles = actors::role_counts(options);
  for (actors::RoleCount& role : roles) {
    std::vector<std::size_t>& list = where[role.node];
    bool named = false;
    for (std::size_t h = 0; h < hosts.size(); ++h) {
      const auto found = hosts[h].nodes.find(role.node);
      if (found == hosts[h].nodes.end()) continue;
      named = true;
      list.insert(list.end(), static_cast<std::size_t>(found->second), h);
    }
    if (named) {
      role.nodes = static_cast<std::int64_t>(list.size());
      continue;
    }
    const bool spread = role.fills && hosts.size() > 1 && role.nodes > 0;
    const auto others = static_cast<std::int64_t>(hosts.size()) - 1;
    if (spread) role.nodes = std::max(role.nodes, std::min(others, role.count));
    for (std::int64_t i = 0; i < role.nodes; ++i) list.push_back(spread ? static_cast<std::size_t>(1 + i % others) : 0);
  }
  HostedCluster out;
  TROUPE_ASSIGN(out.cluster, place(roles, std::move(run)));
  std::vector<std::int64_t> on_host(hosts.size());
  std::map<std::string, std::string> nodes_of;  // what a role's nodes are called
  for (const actors::RoleCount& role : roles) nodes_of[role.role] = role.node;
  for (NodeSpec& node : out.cluster.nodes) {
    // place() numbers the nodes of a role in order: take that role's hosts in order too.
    std::size_t host = 0;
    if (node.name != kChiefName) {
      std::vector<std::size_t>& list = where[nodes_of[node.roles.front().role]];
      host = list.front();
      list.erase(list.begin());
    }
    const std::int64_t port = file.port == 0 ? 0 : file.port + on_host[host]++;
    if (port > 65535) {
      return Error{Code::kInvalidArgument, fmt::format("host {} has more nodes than ports above {}: use a lower port",
                                                       hosts[host].address, file.port)};
    }
    node.address = {hosts[host].address, static_cast<std::uint16_t>(port)};
    out.hosts.push_back(host);
  }
  return out;
}

}  // namespace troupe::apps
