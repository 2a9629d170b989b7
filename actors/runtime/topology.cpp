#include <troupe/actors/runtime/topology.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include <troupe/core/nearest.hpp>

namespace troupe::actors {
namespace {

const Port* find_port(const std::vector<Port>& ports, std::string_view name) {
  auto found = std::find_if(ports.begin(), ports.end(), [&](const Port& port) { return port.name == name; });
  return found == ports.end() ? nullptr : &*found;
}

/// One lossless edge as seen by the search for cycles.
struct Edge {
  std::string to;
  std::string channel;
};

/// Depth-first search for a path from `at` back to `goal`; fills the channels on it.
bool find_path(const std::map<std::string, std::vector<Edge>>& graph, const std::string& at, const std::string& goal,
               std::set<std::string>& visited, std::vector<std::string>& path) {
  auto edges = graph.find(at);
  if (edges == graph.end()) return false;
  for (const Edge& edge : edges->second) {
    path.push_back(edge.channel);
    if (edge.to == goal) return true;
    if (visited.insert(edge.to).second && find_path(graph, edge.to, goal, visited, path)) return true;
    path.pop_back();
  }
  return false;
}

class Checker {
 public:
  explicit Checker(const Topology& topology) : topology_(topology) {}

  std::vector<TopologyMistake> run() {
    check_roles();
    check_channels();
    check_reports();
    check_dangling_ports();
    check_cycles();
    return std::move(mistakes_);
  }

 private:
  template <typename... Args>
  void find(fmt::format_string<Args...> format, Args&&... args) {
    mistakes_.push_back({fmt::format(format, std::forward<Args>(args)...)});
  }
  template <typename... Args>
  void find(const RoleSpec& role, fmt::format_string<Args...> format, Args&&... args) {
    mistakes_.push_back({fmt::format(format, std::forward<Args>(args)...), role.name});
  }
  template <typename... Args>
  void find(const ChannelSpec& channel, fmt::format_string<Args...> format, Args&&... args) {
    const auto number = static_cast<std::size_t>(&channel - topology_.channels.data());
    mistakes_.push_back({fmt::format(format, std::forward<Args>(args)...), "", number});
  }

  void check_roles() {
    std::set<std::string> names;
    bool completes = false;
    for (const RoleSpec& role : topology_.roles) {
      if (role.name.empty()) find("a role has no name");
      if (!names.insert(role.name).second) find(role, "role \"{}\" is declared twice", role.name);
      if (const int least = role.elastic ? 0 : 1; role.count < least) {
        find(role, "role \"{}\": count is {}, expected {} or more", role.name, role.count, least);
      }
      if (role.group && role.count > 1 && role.execution != Execution::kThread) {
        find(role, "role \"{}\": its {} instances wait for each other within a step: expected threads of their own",
             role.name, role.count);
      }
      if (!role.make) find(role, "role \"{}\" has no factory", role.name);
      completes = completes || role.completes_run;
      std::set<std::string> ports;
      for (const auto* list : {&role.inlets, &role.outlets}) {
        for (const Port& port : *list) {
          if (!ports.insert(port.name).second)
            find(role, "role \"{}\": port \"{}\" is declared twice", role.name, port.name);
        }
      }
    }
    if (!completes) find("no role completes the run, so it would never end");
  }

  void check_channels() {
    for (const ChannelSpec& channel : topology_.channels) {
      if (channel.capacity < 1) {
        find(channel, "channel {}: capacity is {}, expected 1 or more", channel.name(), channel.capacity);
      }
      const Port* from = end(channel, channel.from_role, channel.from_port, &RoleSpec::outlets, "outlet");
      const Port* to = end(channel, channel.to_role, channel.to_port, &RoleSpec::inlets, "inlet");
      if (from == nullptr || to == nullptr) continue;
      if (from->type != to->type) {
        find(channel, "channel {}: role \"{}\" sends {}, role \"{}\" takes {}", channel.name(), channel.from_role,
             from->type, channel.to_role, to->type);
      }
      if (from->kind != to->kind) {
        find(channel, "channel {}: the outlet is of kind {}, the inlet of kind {}", channel.name(),
             to_string(from->kind), to_string(to->kind));
      } else if (from->kind == ChannelKind::kRequest && from->answer_type() != to->answer_type()) {
        find(channel, "channel {}: role \"{}\" wants answers of type {}, role \"{}\" gives {}", channel.name(),
             channel.from_role, from->answer_type(), channel.to_role, to->answer_type());
      }
    }
  }

  const Port* end(const ChannelSpec& channel, const std::string& role_name, const std::string& port_name,
                  std::vector<Port> RoleSpec::*ports, std::string_view kind) {
    const RoleSpec* role = topology_.find(role_name);
    if (role == nullptr) {
      find(channel, "channel {}: there is no role \"{}\"{}", channel.name(), role_name,
           hint(role_name, topology_.roles));
      return nullptr;
    }
    const Port* port = find_port(role->*ports, port_name);
    if (port == nullptr) {
      find(channel, "channel {}: role \"{}\" has no {} \"{}\"{}", channel.name(), role_name, kind, port_name,
           hint(port_name, role->*ports));
    }
    return port;
  }

  /// " (did you mean "celsius"?)", or what there is.
  template <typename Named>
  static std::string hint(const std::string& name, const std::vector<Named>& all) {
    std::vector<std::string> names;
    for (const Named& one : all) names.push_back(one.name);
    const std::vector<std::string> near = nearest(name, names, 1);
    if (!near.empty()) return fmt::format(" (did you mean \"{}\"?)", near[0]);
    if (names.empty()) return "";
    return fmt::format(": there {} {}", names.size() == 1 ? "is" : "are", fmt::join(names, ", "));
  }

  void check_reports() {
    const auto& reports = topology_.reports;
    if (!reports) return;
    const RoleSpec* role = topology_.find(reports->role);
    const Port* inlet = role == nullptr ? nullptr : find_port(role->inlets, reports->port);
    if (inlet == nullptr) {
      find("reports: there is no role \"{}\" with an inlet \"{}\"", reports->role, reports->port);
    } else if (inlet->type != "Metrics" || inlet->kind != ChannelKind::kStream) {
      find("reports: inlet \"{}\" of role \"{}\" is a {} of {}, expected a stream of Metrics", reports->port,
           reports->role, to_string(inlet->kind), inlet->type);
    } else if (role->count != 1) {
      find("reports: role \"{}\" has {} instances, expected 1", reports->role, role->count);
    }
  }

  void check_dangling_ports() {
    for (const RoleSpec& role : topology_.roles) {
      for (const Port& port : role.outlets) {
        report_uses(role, port, "outlet",
                    [&](const ChannelSpec& c) { return c.from_role == role.name && c.from_port == port.name; });
      }
      for (const Port& port : role.inlets) {
        report_uses(role, port, "inlet",
                    [&](const ChannelSpec& c) { return c.to_role == role.name && c.to_port == port.name; });
      }
    }
  }

  template <typename Uses>
  void report_uses(const RoleSpec& role, const Port& port, std::string_view kind, Uses uses) {
    const auto count = std::count_if(topology_.channels.begin(), topology_.channels.end(), uses);
    // Several channels may end in one stream inlet (everyone's metrics) or start at one latest outlet (parameters to
    // actors and evaluator); a frame of a stream goes to one place only, so its outlet has one channel.
    const bool gets_reports =
        topology_.reports && topology_.reports->role == role.name && topology_.reports->port == port.name;
    if (count == 0 && !gets_reports) find(role, "role \"{}\": {} \"{}\" has no channel", role.name, kind, port.name);
    if (count > 1 && kind == "outlet" && port.kind != ChannelKind::kLatest) {
      find(role, "role \"{}\": outlet \"{}\" has {} channels, expected 1", role.name, port.name, count);
      // The last one is the one too many.
      const auto last = std::find_if(topology_.channels.rbegin(), topology_.channels.rend(), uses);
      mistakes_.back().channel = static_cast<std::size_t>(topology_.channels.rend() - last - 1);
    }
  }

  void check_cycles() {
    std::map<std::string, std::vector<Edge>> graph;
    for (const ChannelSpec& channel : topology_.channels) {
      const RoleSpec* to = topology_.find(channel.to_role);
      const Port* inlet = to == nullptr ? nullptr : find_port(to->inlets, channel.to_port);
      if (inlet == nullptr || inlet->kind != ChannelKind::kStream || inlet->always_drained) continue;
      graph[channel.from_role].push_back({channel.to_role, channel.name()});
    }
    std::set<std::string> reported;
    for (const auto& [role, edges] : graph) {
      std::set<std::string> visited;
      std::vector<std::string> path;
      if (!find_path(graph, role, role, visited, path)) continue;
      std::vector<std::string> key = path;
      std::sort(key.begin(), key.end());
      if (!reported.insert(fmt::format("{}", fmt::join(key, ","))).second)
        continue;  // the same ring, entered elsewhere
      find("cycle of lossless channels that could deadlock: {}", fmt::join(path, ", "));
    }
  }

  const Topology& topology_;
  std::vector<TopologyMistake> mistakes_;
};

}  // namespace

std::string_view to_string(ChannelKind kind) {
  switch (kind) {
    case ChannelKind::kStream:
      return "stream";
    case ChannelKind::kLatest:
      return "latest";
    case ChannelKind::kRequest:
      return "request";
  }
  return "unknown";
}

const RoleSpec* Topology::find(std::string_view role) const {
  auto found = std::find_if(roles.begin(), roles.end(), [&](const RoleSpec& spec) { return spec.name == role; });
  return found == roles.end() ? nullptr : &*found;
}

const messages::MessageType* Topology::find_message(std::string_view type) const {
  const auto found = std::ranges::find(messages, type, &messages::MessageType::name);
  return found == messages.end() ? nullptr : &*found;
}

std::vector<TopologyMistake> mistakes(const Topology& topology) { return Checker(topology).run(); }

Status check(const Topology& topology) {
  std::vector<std::string> lines;
  for (TopologyMistake& mistake : mistakes(topology)) lines.push_back("topology: " + std::move(mistake.what));
  if (lines.empty()) return {};
  return Error{Code::kInvalidArgument, fmt::format("{}", fmt::join(lines, "\n"))};
}

Status check_message_types(const Topology& topology) {
  std::vector<std::string> lines;
  const auto known = [&](const std::string& type) {
    return messages::is_shipped_type(type) || topology.find_message(type) != nullptr;
  };
  for (const RoleSpec& role : topology.roles) {
    for (const auto* list : {&role.inlets, &role.outlets}) {
      for (const Port& port : *list) {
        for (const std::string& type : {port.type, port.answer_type()}) {
          if (known(type)) continue;
          lines.push_back(
              fmt::format("topology: role \"{}\": port \"{}\" carries \"{}\", which nobody has "
                          "registered: no other node would let it in",
                          role.name, port.name, type));
          break;
        }
      }
    }
  }
  if (lines.empty()) return {};
  return Error{Code::kInvalidArgument, fmt::format("{}", fmt::join(lines, "\n"))};
}

}  // namespace troupe::actors
