// The node's part in a cut: its instances pause, are saved, and the part is written, kept or removed as the chief says.
#include <troupe/actors/control/node_actor.hpp>

#include <fmt/format.h>

#include <algorithm>

#include <troupe/actors/control/detail/node_answers.hpp>
#include <troupe/collectives/verdict.hpp>
#include <troupe/core/log.hpp>

namespace troupe::actors {

using messages::Control;
using messages::ControlKind;

void NodeActor::begin_cut(const Control& order) {
  cut_ = PendingCut();
  uncommitted_ = order.number;
  cut_->number = order.number;
  cut_->cut.number = order.number;
  std::set<std::string> members;
  for (const messages::ControlNode& node : order.nodes) members.insert(node.name);
  for (const auto& [name, instance] : instances_) {
    cut_->pausing.insert(name);
    for (const auto& [edge, node] : instance.peer_nodes) {
      if (members.contains(node)) cut_->markers_due.insert(node);
    }
  }
  tools_.groups.vacate("a cut pauses the run");  // who pauses would let the others wait in the middle of a step
  for (const auto& [name, instance] : instances_) send(instance.actor, pause_atom::value);
  cut_->give_up = tools_.clock.now() + options_.cut_deadline;
  if (options_.cut_deadline > collectives::kVerdictAfter) {
    delayed_send(this, collectives::kVerdictAfter, expire_atom::value, cut_->number);  // a hang has a name by then
  }
  delayed_send(this, options_.cut_deadline, expire_atom::value, cut_->number);
  advance_cut();
}

void NodeActor::paused(const std::string& instance) {
  if (!cut_) return;
  cut_->pausing.erase(instance);
  if (cut_->pausing.empty() && own_.network != nullptr) {
    // All that our instances have sent is on its way: the marker goes behind it.
    std::set<std::string> peers;
    for (const auto& [name, each] : instances_) {
      for (const auto& [edge, node] : each.peer_nodes) peers.insert(node);
    }
    for (const std::string& node : peers) own_.network->send(node, MarkerMessage{cut_->number});
  }
  advance_cut();
}

void NodeActor::advance_cut() {
  if (!cut_ || cut_->save_asked || !cut_->pausing.empty()) return;
  std::erase_if(cut_->markers_due, [this](const std::string& node) { return markers_[node] >= cut_->number; });
  if (!cut_->markers_due.empty()) return;
  cut_->save_asked = true;
  for (const auto& [name, instance] : instances_) {
    cut_->saving.insert(name);
    send(instance.actor, save_atom::value);
  }
  captured_ = cut_->number;
  if (cut_->saving.empty()) captured(cut_->number, std::nullopt);
}

void NodeActor::instance_saved(const SavedMessage& message) {
  if (!cut_ || cut_->saving.erase(message.instance) == 0) return;
  if (message.error) {
    return captured(cut_->number,
                    Error{message.error->code, fmt::format("cut: {}: {}", message.instance, message.error->message)});
  }
  cut_->cut.instances.push_back({message.instance, message.state});
  if (cut_->saving.empty()) captured(cut_->number, std::nullopt);
}

void NodeActor::captured(std::uint64_t number, std::optional<Error> error) {
  Control answer = with_error(ControlKind::kCaptured, error);
  answer.number = number;
  to_chief(std::move(answer));
  if (!error && writer_) {
    std::sort(cut_->cut.instances.begin(), cut_->cut.instances.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
    send(writer_, write_atom::value, std::make_shared<const Cut>(std::move(cut_->cut)));
  }
  if (error) {
    cut_->saving.clear();
    return cut_over(number);
  }
  if (writer_) return;
  Control written;
  written.kind = ControlKind::kWritten;
  written.number = number;
  for (const Cut::Instance& instance : cut_->cut.instances) written.texts.push_back(instance.name);
  cut_->written = std::move(written);
}

void NodeActor::part_written(const WrittenMessage& message) {
  Control written = with_error(ControlKind::kWritten, message.error);
  written.number = message.number;
  written.counters = message.counters;
  if (!message.error) written.text = message.part;
  written.texts = message.instances;
  // Only when it has ended the cut does the chief know that this node stood still until all had captured: spoil_cut().
  if (cut_ && cut_->number == message.number) {
    cut_->written = std::move(written);
  } else if (cut_ended_ == message.number) {
    to_chief(std::move(written));
  }
}

void NodeActor::committed(std::uint64_t number) {
  if (number != captured_ || cut_) return;  // they have been saved once more since: that one decides
  for (const auto& [name, instance] : instances_) send(instance.actor, committed_atom::value);
}

void NodeActor::keep_parts(const Control& order) {
  std::vector<std::uint64_t> numbers = {order.number};
  for (const messages::Counter& counter : order.counters) numbers.push_back(static_cast<std::uint64_t>(counter.value));
  if (writer_) send(writer_, keep_atom::value, std::move(numbers));
}

void NodeActor::check_parts(const Control& order) {
  PartNames parts;
  for (const messages::Counter& counter : order.counters) {
    parts.emplace_back(static_cast<std::uint64_t>(counter.value), counter.name);
  }
  if (writer_) return send(writer_, check_atom::value, std::move(parts));
  parts_checked({});  // it has never written any
}

void NodeActor::parts_checked(const PartsChecked& message) {
  Control checked;
  checked.kind = ControlKind::kChecked;
  for (const std::uint64_t number : message.whole) {
    checked.counters.push_back({"", static_cast<std::int64_t>(number)});
  }
  checked.text = message.wrong;
  to_chief(std::move(checked));
}

void NodeActor::cut_timed_out(std::uint64_t number) {
  if (!cut_ || cut_->number != number || (cut_->save_asked && cut_->saving.empty())) return;
  const Duration left = cut_->give_up - tools_.clock.now();
  const double waited_s = seconds(options_.cut_deadline - std::max(left, Duration::zero()));
  const auto& silent = cut_->save_asked ? cut_->saving : cut_->pausing;
  std::string text =
      silent.empty()
          ? fmt::format("cut: no marker within {:.1f} s from node {}", waited_s, fmt::join(cut_->markers_due, ", "))
          : fmt::format("cut: no answer to {} within {:.1f} s from {}", cut_->save_asked ? "save" : "pause", waited_s,
                        fmt::join(silent, ", "));
  if (left > Duration::zero()) return log::warn("checkpoint {}: {}", number, text);
  captured(number, Error{Code::kDeadlineExceeded, std::move(text)});
  end_cut();
}

void NodeActor::spoil_cut(const std::string& why) {
  // Other nodes may not have captured yet, and get what is sent from here now: with it their part does not fit ours.
  Control written = with_error(ControlKind::kWritten,
                               Error{Code::kUnavailable, fmt::format("cut: node {} went on: {}", own_.self.node, why)});
  written.number = cut_->number;
  cut_->written = std::move(written);
  const std::uint64_t number = cut_->number;
  end_cut();
  cut_over(number);
}

void NodeActor::end_cut() {
  const std::uint64_t number = cut_->number;
  const bool failed = !cut_->save_asked || !cut_->saving.empty();
  if (cut_->written) to_chief(*std::move(cut_->written));
  cut_.reset();
  for (const auto& [name, instance] : instances_) send(instance.actor, resume_atom::value);
  if (failed) cut_over(number);
}

}  // namespace troupe::actors
