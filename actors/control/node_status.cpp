// A node's part of the status: asks its instances, and answers for those that are in a long step.
#include <troupe/actors/control/node_actor.hpp>

#include <algorithm>

#include <troupe/actors/control/run_status.hpp>
#include <troupe/core/text.hpp>

namespace troupe::actors {

using messages::Control;
using messages::ControlKind;

namespace {

/// How long instances have to say what they do; the chief waits longer (chief_status.cpp).
constexpr Duration kStatusPatience = std::chrono::milliseconds(200);

}  // namespace

void NodeActor::ask_status() {
  status_due_.clear();
  delayed_send(this, kStatusPatience, status_atom::value, ++status_round_);
  for (const auto& [name, instance] : instances_) {
    status_due_.insert(name);
    send(instance.actor, status_atom::value);
  }
}

void NodeActor::status(const InstanceStatus& status) {
  statuses_[status.instance] = status;
  if (status_due_.erase(status.instance) > 0 && status_due_.empty()) answer_status();
}

void NodeActor::answer_status() {
  std::vector<InstanceStatus> all;
  for (const auto& [name, instance] : instances_) {
    InstanceStatus& status = statuses_[name];
    if (status_due_.contains(name)) {
      status.instance = name;
      status.idle_s = -1;
      status.waits_for.clear();
      status.why.clear();
      if (const auto now = tools_.groups.activity(instance.id.role, instance.id.index)) set_activity(status, *now);
    }
    all.push_back(status);
  }
  status_due_.clear();
  ++status_round_;  // its deadline means nothing any more
  Control answer;
  answer.kind = ControlKind::kStatus;
  answer.text = to_json(all);
  if (own_.network != nullptr) answer.texts = own_.network->trouble();
  answer.texts.resize(std::min(answer.texts.size(), kTroublesMax));
  for (std::string& line : answer.texts) line = printable(line, messages::kMaxControlNameBytes - 16);
  to_chief(std::move(answer));
}

}  // namespace troupe::actors
