#include <troupe/actors/authorization.hpp>

#include <fmt/format.h>

#include <algorithm>

#include <troupe/transport/join.hpp>

namespace troupe::actors {
namespace {

using messages::ControlKind;

/// Who says what in control messages; what is in neither list nobody may send.
enum class Speaker { kNode, kChief, kOperator };

bool speaks(Speaker who, ControlKind kind) {
  switch (kind) {
    case ControlKind::kJoin:
    case ControlKind::kAlive:
    case ControlKind::kUp:
    case ControlKind::kDone:
    case ControlKind::kFailed:
    case ControlKind::kCaptured:
    case ControlKind::kWritten:
    case ControlKind::kStatus:
    case ControlKind::kLeave:
      return who == Speaker::kNode;
    case ControlKind::kWelcome:
    case ControlKind::kRefuse:
    case ControlKind::kHeard:
    case ControlKind::kNodes:
    case ControlKind::kSpawn:
    case ControlKind::kWire:
    case ControlKind::kUnwire:
    case ControlKind::kStart:
    case ControlKind::kCut:
    case ControlKind::kResume:
    case ControlKind::kCommit:
    case ControlKind::kLive:
      return who == Speaker::kChief;
    case ControlKind::kAskStatus:
    case ControlKind::kEnd:
      return who == Speaker::kChief || who == Speaker::kOperator;
  }
  return false;
}

Error denied(const transport::Identity& sender, const std::string& what) {
  return Error{Code::kInvalidArgument, fmt::format("TRP-S711 node {} (roles {}) may not send {}", sender.node,
                                                   fmt::join(sender.roles, "+"), what)};
}

/// The type that a port declares, as the name of a message.
const std::string& type_of(const Topology& topology, const ChannelSpec& channel) {
  for (const Port& port : topology.find(channel.to_role)->inlets) {
    if (port.name == channel.to_port) return port.type;
  }
  static const std::string kNone;
  return kNone;
}

Status may_send_data(const Topology& topology, const transport::Identity& sender, const EdgeId& edge,
                     bool from_producer, const messages::Frame* frame) {
  if (edge.channel == kReportChannel) {
    if (!topology.reports) return denied(sender, "reports: the topology has none");
    // Everyone reports; credits come from whoever collects.
    if (!from_producer && !sender.has_role(topology.reports->role)) return denied(sender, "credits for reports");
    if (frame == nullptr || messages::type_name(*frame) == "Metrics") return {};
    return denied(sender, fmt::format("{} as a report", messages::type_name(*frame)));
  }
  if (edge.channel >= topology.channels.size()) {
    return denied(sender, fmt::format("on channel {}, expected one below {}", edge.channel, topology.channels.size()));
  }
  const ChannelSpec& channel = topology.channels[edge.channel];
  const std::string& type = type_of(topology, channel);
  if (!sender.has_role(from_producer ? channel.from_role : channel.to_role)) {
    return denied(sender, fmt::format("{} on {}", from_producer ? type : "answers or credits", channel.name()));
  }
  if (frame == nullptr || messages::type_name(*frame) == type) return {};
  return denied(sender, fmt::format("{} on {}, which carries {}", messages::type_name(*frame), channel.name(), type));
}

}  // namespace

Status may_send(const Topology& topology, const transport::Identity& sender, bool to_chief,
                const RemoteMessage& message) {
  if (sender.has_role(kOperatorRole)) {
    const auto* control = std::get_if<messages::Control>(&message);
    if (control != nullptr && to_chief && speaks(Speaker::kOperator, control->kind)) return {};
    return denied(sender, "anything but a question or the end");
  }
  if (const auto* frame = std::get_if<FrameMessage>(&message)) {
    return may_send_data(topology, sender, frame->route.edge, true, &frame->frame);
  }
  if (const auto* credit = std::get_if<CreditMessage>(&message)) {
    return may_send_data(topology, sender, credit->route.edge, false, nullptr);
  }
  if (const auto* call = std::get_if<CallMessage>(&message)) {
    return may_send_data(topology, sender, call->route.edge, true, &call->frame);
  }
  if (const auto* answer = std::get_if<AnswerMessage>(&message)) {
    return may_send_data(topology, sender, answer->route.edge, false, nullptr);
  }
  if (const auto* control = std::get_if<messages::Control>(&message)) {
    const bool chief = sender.has_role(transport::kChiefRole);
    if (to_chief ? speaks(Speaker::kNode, control->kind) : chief && speaks(Speaker::kChief, control->kind)) return {};
    return denied(sender, fmt::format("the order {}", messages::to_string(control->kind)));
  }
  return {};  // a marker: it only counts from a node that takes part in the cut
}

}  // namespace troupe::actors
