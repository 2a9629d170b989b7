#include <troupe/actors/control/run_status.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>
#include <set>

namespace troupe::actors {
namespace {

using Json = nlohmann::ordered_json;

/// An instance that waits for less is only between two messages.
constexpr double kWorthALine = 0.5;
/// A collective that takes longer has somebody to wait for.
constexpr double kHang = 2;
/// How InstanceStatus::why begins for a member of a group in the middle of a step.
constexpr std::string_view kCollective = "group in ";
constexpr std::string_view kAtWork = "is in ";
/// Reasons that one line gives; of more it says how many there are.
constexpr std::size_t kReasonsMax = 8;

Json port_json(const InstanceStatus::PortStatus& port) {
  return {{"name", port.name},   {"direction", port.inlet ? "in" : "out"},
          {"depth", port.depth}, {"frames", port.frames},
          {"bytes", port.bytes}, {"waited_s", port.waited_s}};
}

Json status_json(const InstanceStatus& status) {
  Json ports = Json::array();
  for (const auto& port : status.ports) ports.push_back(port_json(port));
  return {{"instance", status.instance}, {"paused", status.paused},       {"done", status.done},
          {"idle_s", status.idle_s},     {"waits_for", status.waits_for}, {"why", status.why},
          {"version", status.version},   {"ports", std::move(ports)}};
}

/// A whole number, and no other that would be converted to one. Throws as Json::get() does.
std::int64_t whole_number(const Json& number) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  if (!number.is_number_integer() || (number.is_number_unsigned() && number.get<std::uint64_t>() > kMost)) {
    throw Json::type_error::create(302, "type must be a whole number", &number);
  }
  return number.get<std::int64_t>();
}

/// Why an instance does not deliver what somebody waits for.
std::string reason(const RunStatus::Instance& instance) {
  if (instance.state == "restarting" || instance.state == "waiting for its node") {
    return fmt::format("{} is {} ({} of {})", instance.name, instance.state, instance.restarts, instance.restart_limit);
  }
  if (instance.state != "up") return fmt::format("{} is {}", instance.name, instance.state);
  if (instance.own && !instance.own->why.empty()) return fmt::format("{}'s {}", instance.name, instance.own->why);
  return {};
}

/// Goes from an instance that waits on `port` to those at the other end, and from each of them that waits in its turn
/// on, up or down the streams, and collects what holds them up.
class Explanation {
 public:
  Explanation(const Topology& topology, const RunStatus& status) : topology_(topology), status_(status) {}

  void follow(const RunStatus::Instance& instance, const std::string& port) {
    asked_.insert(instance.name);
    for (const ChannelSpec& channel : topology_.channels) {
      if (channel.to_role == instance.role && channel.to_port == port) follow_channel(channel.from_role, true);
      if (channel.from_role == instance.role && channel.from_port == port) follow_channel(channel.to_role, false);
    }
  }

  std::string text() const {
    if (reasons_.size() <= kReasonsMax) return fmt::format("{}", fmt::join(reasons_, "; "));
    return fmt::format("{}; and {} more", fmt::join(reasons_.begin(), reasons_.begin() + kReasonsMax, "; "),
                       reasons_.size() - kReasonsMax);
  }

 private:
  void follow_channel(const std::string& role, bool upstream) {
    for (const RunStatus::Instance& other : status_.instances) {
      if (other.role != role || !asked_.insert(other.name).second) continue;
      if (std::string text = reason(other); !text.empty()) reasons_.push_back(std::move(text));
      if (other.state != "up" || !other.own) continue;
      if (!other.own->waits_for.empty()) {
        follow(other, other.own->waits_for);
      } else if (!other.own->why.empty()) {
        // It has said what it needs, but not from whom.
        const RoleSpec* const spec = topology_.find(role);
        for (const Port& port : upstream ? spec->inlets : spec->outlets) {
          if (port.kind == ChannelKind::kStream) follow(other, port.name);
        }
      }
    }
  }

  const Topology& topology_;
  const RunStatus& status_;
  std::set<std::string> asked_;  ///< each instance gives its reason once
  std::vector<std::string> reasons_;
};

}  // namespace

std::string to_json(const std::vector<InstanceStatus>& statuses) {
  Json all = Json::array();
  for (const InstanceStatus& status : statuses) all.push_back(status_json(status));
  return all.dump(-1, ' ', true, Json::error_handler_t::replace);
}

Result<std::vector<InstanceStatus>> statuses_from_json(const std::string& text) {
  const Json all = Json::parse(text, nullptr, false);
  if (!all.is_array()) return Error{Code::kCorrupt, "status: got no JSON array"};
  std::vector<InstanceStatus> statuses;
  try {
    for (const Json& one : all) {
      InstanceStatus status;
      status.instance = one.at("instance");
      status.paused = one.at("paused");
      status.done = one.at("done");
      status.idle_s = one.at("idle_s");
      status.waits_for = one.at("waits_for");
      status.why = one.at("why");
      status.version = whole_number(one.at("version"));
      for (const Json& port : one.at("ports")) {
        status.ports.push_back({port.at("name"), port.at("direction") == "in", whole_number(port.at("depth")),
                                whole_number(port.at("frames")), whole_number(port.at("bytes")), port.at("waited_s")});
      }
      statuses.push_back(std::move(status));
    }
  } catch (const nlohmann::json::exception& exception) {
    return Error{Code::kCorrupt, fmt::format("status: {}", exception.what())};
  }
  return statuses;
}

std::vector<std::string> waits(const Topology& topology, const RunStatus& status) {
  std::vector<std::string> lines;
  for (const RunStatus::Instance& instance : status.instances) {
    if (!instance.own || instance.own->idle_s < kWorthALine) continue;
    const InstanceStatus& own = *instance.own;
    if (own.waits_for.empty() && own.why.empty()) continue;  // content with what it has
    Explanation explanation(topology, status);
    explanation.follow(instance, own.waits_for);
    std::string reasons = explanation.text();
    if (reasons.empty() && !own.why.empty()) reasons = "its " + own.why;
    const std::string on = own.waits_for.empty() ? std::string() : " on " + own.waits_for;
    lines.push_back(
        fmt::format("{} waits {:.1f} s{}{}{}", instance.name, own.idle_s, on, reasons.empty() ? "" : ": ", reasons));
  }
  return lines;
}

void set_activity(InstanceStatus& status, const collectives::Activity::Now& now) {
  if (now.what.empty()) return;
  // Collectives are named by what they are called with (collectives/verdict.hpp); nothing else has a parenthesis.
  if (now.what.find('(') != std::string::npos) {
    status.idle_s = seconds(now.since);
    status.why = fmt::format("{}{} of step {}", kCollective, now.what, now.step);
  } else {
    status.why = fmt::format("{}{} of step {} for {:.1f} s", kAtWork, now.what, now.step, seconds(now.since));
  }
}

std::string hang(const RunStatus& status, const RunStatus::Group& group) {
  std::string waiting, others;
  for (const RunStatus::Instance& instance : status.instances) {
    if (std::find(group.members.begin(), group.members.end(), instance.name) == group.members.end()) continue;
    if (!instance.own) {
      others += fmt::format("; {} does not say what it does", instance.name);
    } else if (instance.own->why.starts_with(kCollective)) {
      if (instance.own->idle_s < kHang) continue;
      waiting += fmt::format("; {} waits {:.1f} s for {}", instance.name, instance.own->idle_s,
                             instance.own->why.substr(kCollective.size()));
    } else if (!instance.own->why.empty()) {
      others += fmt::format("; {} {}", instance.name,
                            instance.own->why.starts_with(kAtWork) ? instance.own->why : "waits: " + instance.own->why);
    }
  }
  return waiting.empty() ? "" : (waiting + others).substr(2);
}

namespace {

Json group_json(const Topology& topology, const RunStatus& status, const RunStatus::Group& group) {
  const RoleSpec* const role = topology.find(group.role);
  Json missing = Json::array();
  for (const RunStatus::Instance& instance : status.instances) {
    const bool is_member = std::find(group.members.begin(), group.members.end(), instance.name) != group.members.end();
    if (instance.role != group.role || is_member || instance.state == "done") continue;
    missing.push_back({{"name", instance.name}, {"state", instance.state}});
  }
  return {{"name", group.role},       {"epoch", group.epoch},          {"seats", role == nullptr ? 0 : role->count},
          {"members", group.members}, {"missing", std::move(missing)}, {"hang", hang(status, group)},
          {"broke", group.broke}};
}

}  // namespace

std::string to_json(const Topology& topology, const RunStatus& status) {
  Json groups = Json::array();
  for (const RunStatus::Group& group : status.groups) groups.push_back(group_json(topology, status, group));
  Json nodes = Json::array();
  for (const auto& node : status.nodes) {
    nodes.push_back({{"name", node.name},
                     {"state", node.state},
                     {"incarnation", node.incarnation},
                     {"address", node.address},
                     {"silent_s", node.silent_s}});
  }
  Json instances = Json::array();
  Json versions = Json::object();
  std::int64_t newest = -1;
  for (const auto& instance : status.instances) {
    Json one = {{"name", instance.name},
                {"role", instance.role},
                {"node", instance.node},
                {"state", instance.state},
                {"incarnation", instance.incarnation},
                {"restarts", instance.restarts},
                {"restart_limit", instance.restart_limit},
                {"error", instance.error}};
    if (instance.own) {
      const InstanceStatus& own = *instance.own;
      one["idle_s"] = own.idle_s;
      one["waits_for"] = own.waits_for;
      one["why"] = own.why;
      one["version"] = own.version;
      Json ports = Json::array();
      for (std::size_t i = 0; i < own.ports.size(); ++i) {
        Json port = port_json(own.ports[i]);
        const bool rates = instance.before && i < instance.before->ports.size() && status.between_s > 0;
        auto rate = [&](std::int64_t now, std::int64_t then) {
          return rates ? std::max(0.0, static_cast<double>(now - then) / status.between_s) : 0.0;
        };
        const auto& then = rates ? instance.before->ports[i] : own.ports[i];
        port["frames_per_s"] = rate(own.ports[i].frames, then.frames);
        port["bytes_per_s"] = rate(own.ports[i].bytes, then.bytes);
        ports.push_back(std::move(port));
      }
      one["ports"] = std::move(ports);
      if (own.version >= 0) {
        versions[instance.name] = own.version;
        newest = std::max(newest, own.version);
      }
    }
    instances.push_back(std::move(one));
  }
  Json staleness = Json::object();
  for (const auto& [name, version] : versions.items()) staleness[name] = newest - version.get<std::int64_t>();
  Json types = Json::array();
  for (const messages::MessageType& type : topology.messages) {
    types.push_back({{"name", type.name}, {"opaque", type.opaque()}, {"max_bytes", type.max_bytes}});
  }
  Json channels = Json::array();
  for (const ChannelSpec& channel : topology.channels) {
    const RoleSpec* const from = topology.find(channel.from_role);
    const auto outlet = std::ranges::find(from->outlets, channel.from_port, &Port::name);
    channels.push_back({{"from", channel.from_role},
                        {"from_port", channel.from_port},
                        {"to", channel.to_role},
                        {"to_port", channel.to_port},
                        {"kind", to_string(outlet->kind)},
                        {"capacity", channel.capacity}});
  }
  const Json all = {{"run", status.run},
                    {"term", status.term},
                    {"seconds", status.wall_s},
                    {"last_cut", status.last_cut},
                    {"trouble", status.trouble},
                    {"nodes", std::move(nodes)},
                    {"instances", std::move(instances)},
                    {"groups", std::move(groups)},
                    {"channels", std::move(channels)},
                    {"messages", std::move(types)},
                    {"waits", waits(topology, status)},
                    {"versions", std::move(versions)},
                    {"staleness", std::move(staleness)}};
  return all.dump(-1, ' ', true, Json::error_handler_t::replace);
}

}  // namespace troupe::actors
