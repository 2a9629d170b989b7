#include <troupe/apps/cluster/cluster_file.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <variant>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <troupe/apps/cluster/detail/mistakes.hpp>
#include <troupe/apps/cluster/place.hpp>
#include <troupe/core/text.hpp>
#include <troupe/run/role_counts.hpp>
#include <troupe/run/run_topology.hpp>
#include <troupe/transport/identity.hpp>

namespace troupe::apps {
namespace {

constexpr std::size_t kNodesMax = 4096;

class ClusterReader {
 public:
  ClusterReader(const std::string& name, const actors::TrainOptions& options)
      : mistakes_(printable(name, 4096)), counts_{{actors::kMetricsRole, 1}} {
    for (const actors::RoleCount& role : actors::role_counts(options)) counts_[role.role] = role.count;
    for (const auto& [role, count] : counts_) role_names_.push_back(role);
  }

  Result<ClusterSpec> read(const TomlValue& file) {
    mistakes_.is_table(file, "a cluster", {"run", "nodes"});
    if (file.find("run") == nullptr) mistakes_.add(0, "missing key run: the name of the run");
    if (const std::string* run = mistakes_.text(file, "run")) {
      cluster_.run = *run;
      if (!transport::is_name(*run)) mistakes_.add(file.find("run")->line, bad_name("run", *run));
    }
    if (file.find("nodes") == nullptr) mistakes_.add(0, "no nodes: expected at least one [[nodes]]");
    if (const TomlValue::List* nodes = mistakes_.list(file, "nodes")) read_nodes(*nodes, file.find("nodes")->line);
    TROUPE_TRY(mistakes_.report());
    return std::move(cluster_);
  }

 private:
  static std::string bad_name(std::string_view key, const std::string& got) {
    return fmt::format("{} \"{}\": expected 1 .. {} characters of a-z 0-9 . _ -, a letter or digit first", key,
                       printable(got), transport::kNameBytesMax);
  }

  void read_nodes(const TomlValue::List& nodes, std::size_t line) {
    if (nodes.empty() || nodes.size() > kNodesMax) {
      mistakes_.add(line, fmt::format("got {} nodes, expected 1 .. {}", nodes.size(), kNodesMax));
      return;
    }
    for (const TomlValue& node : nodes) read_node(node);
    for (const auto& [role, count] : counts_) {
      std::int64_t missing = 0, first = 0;
      for (std::int64_t i = count - 1; i >= 0; --i) {
        if (owners_.count({role, i}) > 0) continue;
        ++missing;
        first = i;
      }
      if (missing == 0) continue;
      mistakes_.add(
          0, fmt::format("role {}: {} of {} instances are on no node, the first is {}", role, missing, count, first));
    }
  }

  void read_node(const TomlValue& value) {
    if (!mistakes_.is_table(value, "a node", {"name", "host", "port", "roles"})) return;
    NodeSpec node;
    const auto demand = [&](std::string_view key) {
      if (value.find(key) == nullptr) mistakes_.add(value.line, fmt::format("a node without {}", key));
    };
    demand("name");
    demand("roles");
    if (const std::string* name = mistakes_.text(value, "name")) {
      const std::size_t line = value.find("name")->line;
      node.name = *name;
      if (!transport::is_name(*name)) {
        mistakes_.add(line, bad_name("name", *name));
      } else if (cluster_.nodes.empty() && *name != kChiefName) {
        mistakes_.add(line, fmt::format("name \"{}\": the first node is the \"{}\"", *name, kChiefName));
      } else if (cluster_.find(*name) != nullptr) {
        mistakes_.add(line, fmt::format("name \"{}\": there is a node of that name already", *name));
      }
    }
    if (const std::string* host = mistakes_.text(value, "host")) {
      node.address.host = *host;
      if (!is_host(*host)) {
        mistakes_.add(value.find("host")->line,
                      fmt::format("host \"{}\": expected a host name or an IP address", printable(*host)));
      }
    }
    if (const std::int64_t* port = mistakes_.integer(value, "port")) {
      node.address.port = static_cast<std::uint16_t>(*port);
      if (*port < 0 || *port > 65535) {
        mistakes_.add(value.find("port")->line, fmt::format("port: got {}, expected 0 .. 65535", *port));
      } else if (*port > 0 && !addresses_.insert(to_string(node.address)).second) {
        mistakes_.add(value.find("port")->line,
                      fmt::format("{} is another node's address already", to_string(node.address)));
      }
    }
    if (const TomlMember* roles = value.find("roles")) read_roles(roles->value, node);
    cluster_.nodes.push_back(std::move(node));
  }

  void read_roles(const TomlValue& roles, NodeSpec& node) {
    if (!mistakes_.is_table(roles, "roles", role_names_)) return;
    for (const TomlMember& role : std::get<TomlValue::Table>(roles.value)) {
      const auto count = counts_.find(role.name);
      if (count == counts_.end()) continue;  // complained of as an unknown key
      const TomlValue::List* instances = mistakes_.list(roles, role.name);
      if (instances == nullptr) continue;
      std::vector<std::int64_t> hosted;
      for (const TomlValue& instance : *instances) {
        const std::int64_t* index = std::get_if<std::int64_t>(&instance.value);
        if (index == nullptr || *index < 0 || *index >= count->second) {
          mistakes_.add(role.line,
                        fmt::format("{}: got {}, expected instances in 0 .. {}", role.name,
                                    index == nullptr ? std::string(type_name(instance)) : std::to_string(*index),
                                    count->second - 1));
        } else if (const auto [owner, fresh] = owners_.insert({{role.name, *index}, node.name}); !fresh) {
          mistakes_.add(role.line,
                        fmt::format("{} {} is on node \"{}\" already", role.name, *index, printable(owner->second)));
        } else {
          hosted.push_back(*index);
        }
      }
      if (role.name == actors::kMetricsRole && !cluster_.nodes.empty()) {
        mistakes_.add(role.line, "metrics belong to the chief, the first node");
      }
      add_role(node, role.name, hosted);
    }
  }

  detail::Mistakes mistakes_;
  std::map<std::string, std::int64_t> counts_;
  std::vector<std::string> role_names_;
  ClusterSpec cluster_;
  std::set<std::string> addresses_;
  std::map<std::pair<std::string, std::int64_t>, std::string> owners_;  ///< of each instance
};

}  // namespace

Result<ClusterSpec> parse_cluster(std::string_view text, const std::string& name, const actors::TrainOptions& options) {
  TROUPE_ASSIGN(const TomlValue file, parse_toml(text, name));
  return ClusterReader(name, options).read(file);
}

Result<ClusterSpec> load_cluster(const std::filesystem::path& file, const actors::TrainOptions& options) {
  TROUPE_ASSIGN(const std::string text, read_config_text(file));
  return parse_cluster(text, file.string(), options);
}

Result<std::vector<std::string>> planned_names(const std::filesystem::path& file) {
  std::vector<std::string> names;
  const auto text = read_config_text(file);
  if (!text.ok() && text.error().code == Code::kNotFound) return names;
  if (!text.ok()) return text.error();
  TROUPE_ASSIGN(const TomlValue cluster, parse_toml(*text, file.string()));
  const TomlMember* const nodes = cluster.find("nodes");
  const auto* const list = nodes == nullptr ? nullptr : std::get_if<TomlValue::List>(&nodes->value.value);
  if (list == nullptr) return names;
  for (const TomlValue& node : *list) {
    const TomlMember* const name = node.find("name");
    const auto* const text_of_name = name == nullptr ? nullptr : std::get_if<std::string>(&name->value.value);
    if (text_of_name != nullptr) names.push_back(*text_of_name);
  }
  return names;
}

std::string to_toml(const ClusterSpec& cluster) {
  std::string text = fmt::format("run = \"{}\"\n", cluster.run);
  for (const NodeSpec& node : cluster.nodes) {
    std::vector<std::string> roles;
    for (const HostedRole& role : node.roles) {
      roles.push_back(fmt::format("{} = [{}]", role.role, fmt::join(role.instances, ", ")));
    }
    text += fmt::format("\n[[nodes]]\nname = \"{}\"\nhost = \"{}\"\nport = {}\nroles = {{ {} }}\n", node.name,
                        node.address.host, node.address.port, fmt::join(roles, ", "));
  }
  return text;
}

}  // namespace troupe::apps
