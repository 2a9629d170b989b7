#include <troupe/page/overview.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace troupe::page {
namespace {

constexpr std::size_t kAlarmsMax = 20;

void add(RoleView& role, const SeenInstance& instance) {
  ++role.instances;
  ++role.states[instance.state];
  role.restarts += instance.restarts;
  if (instance.version >= 0) {
    role.version = role.version < 0 ? instance.version : std::min(role.version, instance.version);
  }
  role.staleness = std::max(role.staleness, instance.staleness);
  if (role.error.empty() && instance.state != "up" && instance.state != "done") role.error = instance.error;
  if (instance.idle_s < 0 && role.waiting == 0 && role.why.empty()) role.why = instance.why;  // what it is in
  if (instance.idle_s < kWaitsFrom_s || (instance.waits_for.empty() && instance.why.empty())) return;
  ++role.waiting;
  if (instance.idle_s <= role.longest_idle_s) return;
  role.longest_idle_s = instance.idle_s;
  role.longest = instance.name;
  role.waits_for = instance.waits_for;
  role.why = instance.why;
}

bool is_down(const SeenInstance& instance) {
  return instance.state == "restarting" || instance.state == "quarantined" || instance.state == "waiting for its node";
}

}  // namespace

Overview overview_of(const SeenRun& run, const std::vector<PortTraffic>& traffic) {
  Overview all;
  std::map<std::string, std::size_t> places;
  // By role and port, so that a thousand instances are looked at once.
  std::map<std::pair<std::string, std::string>, ChannelView> in, out;
  for (const SeenInstance& instance : run.instances) {
    const auto [place, is_new] = places.try_emplace(instance.role, all.roles.size());
    if (is_new) all.roles.emplace_back().name = instance.role;
    add(all.roles[place->second], instance);
    for (const SeenPort& port : instance.ports) {
      ChannelView& end = (port.inlet ? in : out)[{instance.role, port.name}];
      end.depth += static_cast<double>(port.depth);
      end.frames_per_s += port.frames_per_s;
      end.bytes_per_s += port.bytes_per_s;
      if (instance.waits_for != port.name || instance.idle_s < kWaitsFrom_s) continue;
      ++(port.inlet ? end.consumers_waiting : end.producers_waiting);
      end.longest_s = std::max(end.longest_s, instance.idle_s);
    }
  }
  for (const PortTraffic& port : traffic) {
    const auto place = places.find(port.role);
    const std::pair end(port.role, port.port);
    if (place == places.end() || in.contains(end) || out.contains(end)) continue;
    const auto instances = static_cast<double>(all.roles[place->second].instances);
    ChannelView& view = (port.depth ? in : out)[end];
    view.depth = port.depth.value_or(0) * instances;
    view.frames_per_s = port.frames_per_s;
    view.bytes_per_s = port.bytes_per_s;
  }
  for (const SeenChannel& channel : run.channels) {
    const ChannelView& from = out[{channel.from, channel.from_port}];
    ChannelView view = in[{channel.to, channel.to_port}];
    view.channel = channel;
    view.producers_waiting = from.producers_waiting;
    view.longest_s = std::max(view.longest_s, from.longest_s);
    all.channels.push_back(std::move(view));
  }
  return all;
}

std::vector<std::string> alarms_of(const SeenRun& run) {
  std::vector<std::string> lines = run.trouble;
  for (const SeenGroup& group : run.groups) {
    if (!group.hang.empty()) lines.push_back(fmt::format("group {}: {}", group.name, group.hang));
  }
  std::int64_t down = 0;
  for (const SeenInstance& instance : run.instances) {
    if (!is_down(instance)) continue;
    ++down;
    if (lines.size() > kAlarmsMax) continue;
    lines.push_back(fmt::format("{} is {} (restart {} of {}){}{}", instance.name, instance.state, instance.restarts,
                                instance.restart_limit, instance.error.empty() ? "" : ": ", instance.error));
  }
  for (const SeenNode& node : run.nodes) {
    if (node.state == "dead") lines.push_back(fmt::format("node {} is dead", node.name));
  }
  if (lines.size() > kAlarmsMax) {
    lines.resize(kAlarmsMax - 1);
    lines.push_back(fmt::format("and more; {} instances are down", down));
  }
  return lines;
}

}  // namespace troupe::page
