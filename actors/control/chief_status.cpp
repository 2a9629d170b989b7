// What the chief knows of the run, for `troupe status`.
#include <troupe/actors/control/chief_actor.hpp>

#include <fmt/format.h>

#include <algorithm>

#include <troupe/core/log.hpp>

namespace troupe::actors {
namespace {

using messages::Control;
using messages::ControlKind;

/// Between two rounds of questions: so long for each node, but never less than ChiefActor::kStatusPeriod.
constexpr Duration kStatusPerNode = std::chrono::milliseconds(16);
constexpr Duration kNodeStatusDeadline = std::chrono::milliseconds(500);
/// Rates over less would be noise.
constexpr Duration kRatesOver = std::chrono::milliseconds(500);

}  // namespace

void ChiefActor::ask_status() {
  status_due_.clear();
  ++status_round_;
  for (const auto& [name, node] : membership_.nodes()) {
    if (node.state == Membership::State::kUp) status_due_.insert(name);
  }
  const Duration now = clock_.now();
  status_shifts_ = now - status_at_ >= kRatesOver;
  const Duration last = std::exchange(status_at_, now);
  if (status_shifts_) status_before_ = last;
  delayed_send(this, kNodeStatusDeadline, status_atom::value, status_round_);
  for (const std::string& node : status_due_) {
    Control ask;
    ask.kind = ControlKind::kAskStatus;
    to_node(node, std::move(ask));
  }
}

void ChiefActor::periodic_status() {
  if (superseded()) return;
  if (status_due_.empty()) ask_status();
  const auto nodes = static_cast<std::int64_t>(membership_.up_count());
  delayed_send(this, std::max(kStatusPeriod, nodes * kStatusPerNode), status_atom::value, true);
}

void ChiefActor::status_of(const Control& message, const std::string& node) {
  auto statuses = statuses_from_json(message.text);
  if (!statuses.ok()) return log::warn("status of node {}: {}", node, statuses.error().message);
  for (InstanceStatus& status : *statuses) {
    for (const std::size_t place : on_node(node)) {
      Instance& instance = instances_[place];
      if (instance.name != status.instance) continue;
      if (status_shifts_) instance.before = std::move(instance.own);
      instance.own = std::move(status);
      break;
    }
  }
  troubles_[node] = message.texts;
  troubles_[node].resize(std::min(message.texts.size(), kTroublesMax));
  status_due_.erase(node);
  if (status_due_.empty()) finish_status();
}

void ChiefActor::finish_status() {
  ++status_round_;  // the deadline of this round means nothing any more
  status_due_.clear();
  if (status_promises_.empty() && !operator_waits_) return;
  const std::string text = status();
  for (auto& promise : status_promises_) promise.deliver(text);
  status_promises_.clear();
  if (!operator_waits_) return;
  operator_waits_ = false;
  Control answer;
  answer.kind = ControlKind::kStatus;
  answer.text = text;
  to_node(kOperator, std::move(answer));
}

std::string ChiefActor::status() {
  const Duration now = clock_.now();
  RunStatus status;
  status.run = options_.node.self.run;
  status.term = journal_.term;
  status.wall_s = seconds(now);
  status.last_cut = journal_.last_cut;
  if (!unkept_.empty()) status.trouble.push_back(journal_trouble());
  for (const auto& [who, lines] : troubles_) {
    for (const std::string& line : lines) status.trouble.push_back(fmt::format("{}: {}", who, line));
  }
  status.between_s = seconds(status_at_ - status_before_);
  auto state_name = [](Membership::State state) {
    switch (state) {
      case Membership::State::kExpected:
        return "expected";
      case Membership::State::kUp:
        return "up";
      case Membership::State::kDead:
        return "dead";
      case Membership::State::kLeft:
        return "left";
    }
    return "unknown";
  };
  for (const auto& [name, node] : membership_.nodes()) {
    const auto& address = addresses_[name];
    status.nodes.push_back({name, state_name(node.state), node.incarnation,
                            address.port == 0 ? "" : fmt::format("{}:{}", address.host, address.port),
                            node.state == Membership::State::kExpected ? 0 : seconds(now - node.last_heard)});
  }
  for (const Instance& instance : instances_) {
    auto instance_state = [&] {
      switch (instance.state) {
        case State::kWaitingForNode:
          return "waiting for its node";
        case State::kStarting:
          return "starting";
        case State::kUp:
          return instance.id.done ? "done" : "up";
        case State::kRestarting:
          return "restarting";
        case State::kQuarantined:
          return "quarantined";
      }
      return "unknown";
    };
    status.instances.push_back({instance.name, instance.id.role, instance.node, instance_state(),
                                instance.id.incarnation, instance.restarts, instance.spec->restart.max_restarts,
                                instance.error, instance.own, instance.before});
  }
  for (const RoleSpec& role : topology_.roles) {
    if (!role.group) continue;
    RunStatus::Group& group = status.groups.emplace_back();
    group.role = role.name;
    const auto known = groups_.find(role.name);
    if (known == groups_.end() || known->second.epochs == 0) continue;
    const messages::Control& view = known->second.view;
    group.epoch = fmt::format("{}.{}", view.number >> 32, view.number & 0xffffffff);
    group.broke = known->second.broke;
    for (const messages::ControlInstance& member : view.instances) {
      const Instance* const instance = find(member);
      const bool is_in =
          instance != nullptr && instance->state == State::kUp && instance->id.incarnation == member.incarnation;
      if (is_in) group.members.push_back(instance->name);
    }
  }
  return to_json(topology_, status);
}

}  // namespace troupe::actors
