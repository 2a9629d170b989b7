// The chief's part in groups: says who belongs to one, in numbered epochs. A change of membership, and the end of a
// pause, is a new epoch; the ranks do the rest among themselves (actors/runtime/group_seat.hpp).
#include <troupe/actors/control/chief_actor.hpp>

#include <fmt/format.h>

#include <algorithm>

#include <troupe/core/log.hpp>
#include <troupe/transport/shared_memory.hpp>

namespace troupe::actors {
namespace {

using messages::Control;
using messages::ControlKind;

/// How long those who are up wait at the start of a run for the others, so that the first steps are of the whole group.
constexpr Duration kGroupPatience = std::chrono::seconds(10);

}  // namespace

void ChiefActor::regroup_all() {
  for (const RoleSpec& role : topology_.roles) regroup(role);
}

void ChiefActor::epoch_broke(const Control& message) {
  const std::string& role = message.instances.front().role;
  const auto group = groups_.find(role);
  if (group == groups_.end() || group->second.view.number != message.number) return;  // it has another one already
  if (ended_ || in_cut()) return;  // that is what broke it, and its end brings the next one
  log::warn("group {}: epoch {}.{} broke at {}: {}; another one follows", role, message.number >> 32,
            message.number & 0xffffffff, message.node, message.text);
  group->second.broke = fmt::format("epoch {}.{}: {}", message.number >> 32, message.number & 0xffffffff, message.text);
  regroup(*topology_.find(role));
}

void ChiefActor::note_apart(const std::string& role, const std::vector<messages::ControlNode>& members) {
  std::vector<std::string>& lines = troubles_["group " + role];
  const bool noted = !lines.empty();
  lines.clear();
  for (const messages::ControlNode& member : members) {
    const messages::ControlNode& first = members.front();
    if (member.host == first.host || member.host.empty() || !transport::same_machine(member.host, first.host)) continue;
    lines = {
        fmt::format("TRP-W181 nodes {} and {} are on one machine, but in different namespaces: values of the group "
                    "go over TLS",
                    first.name, member.name)};
    if (!noted) log::warn("group {}: {}", role, lines.front());
    return;
  }
}

void ChiefActor::regroup(const RoleSpec& role) {
  if (!role.group || ended_ || in_cut()) return;
  Group& group = groups_[role.name];
  Control view = order(ControlKind::kGroup);
  bool missing = false;
  std::string names;
  for (const Instance& instance : instances_) {
    if (instance.spec != &role || instance.id.done) continue;
    if (instance.state != State::kUp) {
      missing |= !instance.elastic && instance.state != State::kQuarantined;
      continue;
    }
    view.instances.push_back(instance.id);
    view.nodes.push_back({instance.node, 0, hosts_[instance.node], 0});
    names += (names.empty() ? "" : ", ") + instance.name;
  }
  if (view.instances.empty()) return;
  if (!group.formed && missing) {
    const Duration now = clock_.now();
    if (!group.first_up) {
      group.first_up = now;
      delayed_send(this, kGroupPatience, group_atom::value, role.name);
    }
    if (now - *group.first_up < kGroupPatience) return;
  }
  group.formed = true;
  // Epochs of a later chief are later epochs.
  view.number = (journal_.term << 32) | ++group.epochs;
  // The end of a pause is a new epoch too, and nothing to tell anybody.
  if (view.instances != group.view.instances) {
    log::info("group {}: epoch {}.{} of {}", role.name, journal_.term, group.epochs, names);
  }
  if (view.instances != group.view.instances) note_apart(role.name, view.nodes);
  group.view = view;
  std::set<std::string> nodes;
  for (const messages::ControlNode& node : view.nodes) nodes.insert(node.name);
  for (const std::string& node : nodes) to_node(node, view);
}

}  // namespace troupe::actors
