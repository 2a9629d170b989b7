#include <troupe/actors/network/authorization.hpp>

#include <fmt/format.h>

#include <algorithm>

#include <troupe/messages/message_type.hpp>
#include <troupe/transport/join.hpp>

namespace troupe::actors {
namespace {

using messages::Control;
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
    case ControlKind::kRegroup:
    case ControlKind::kChecked:
    case ControlKind::kRoundEnded:
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
    case ControlKind::kGroup:
    case ControlKind::kCheck:
    case ControlKind::kRound:
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

/// Whether instances may be placed on it at all: it has a role of the topology.
bool takes_part(const Topology& topology, const transport::Identity& sender) {
  return std::ranges::any_of(sender.roles, [&](const std::string& role) { return topology.find(role) != nullptr; });
}

const Port& inlet_of(const Topology& topology, const ChannelSpec& channel) {
  const auto& inlets = topology.find(channel.to_role)->inlets;
  return *std::ranges::find(inlets, channel.to_port, &Port::name);  // the topology was checked before anything began
}

/// What a node may send about one edge: `what` is the kind of message, `carries` its frame.
struct Data {
  EdgeId edge;
  bool from_producer = true;
  bool request = false;  ///< calls and answers: only on such channels; frames and credits: only on the others
  const messages::Frame* carries = nullptr;
  bool answer = false;  ///< to a call
  std::uint32_t credits = 0;
  std::string_view what;
};

Status may_send_report(const Topology& topology, const transport::Identity& sender, const Data& data) {
  if (!topology.reports || data.request) return denied(sender, fmt::format("{} for reports", data.what));
  // Everyone reports, one at a time; credits come from whoever collects.
  if (!data.from_producer) {
    if (sender.has_role(topology.reports->role) && data.credits <= 1) return {};
    return denied(sender, fmt::format("{} {} for reports", data.credits, data.what));
  }
  if (messages::type_name(*data.carries) == "Metrics") return {};
  return denied(sender, fmt::format("{} as a report", messages::type_name(*data.carries)));
}

/// Whether the frame is of the channel's type: one of ours by its schema, one that is registered by its bound and
/// check.
Status may_carry(const Topology& topology, const transport::Identity& sender, const Data& data,
                 const ChannelSpec& channel, const Port& port) {
  const std::string& type = data.answer ? port.answer_type() : port.type;
  if (const messages::MessageType* const own = topology.find_message(type)) {
    const Status good = messages::check_message(*own, *data.carries);
    if (good.ok()) return good;
    return Error{Code::kInvalidArgument, fmt::format("TRP-S706 from {}: {} on {}: {}", sender.node, data.what,
                                                     channel.name(), good.error().message)};
  }
  // A call of ours is answered by a message of another kind, which the role that asked reads completely.
  if (data.answer && port.answer.empty() && messages::is_shipped_type(type)) return {};
  if (messages::is_shipped_type(type) && messages::type_name(*data.carries) == type) return {};
  const std::string_view kind = messages::type_name(*data.carries);
  return denied(sender,
                fmt::format("{} on {}, which carries {}{}", kind.empty() ? "unknown bytes" : kind, channel.name(), type,
                            messages::is_shipped_type(type) ? "" : " that nobody has registered"));
}

Status may_send_data(const Topology& topology, const transport::Identity& sender, const Data& data) {
  if (!takes_part(topology, sender)) return denied(sender, std::string(data.what));
  if (data.edge.channel == kReportChannel) return may_send_report(topology, sender, data);
  if (data.edge.channel >= topology.channels.size()) {
    return denied(sender,
                  fmt::format("on channel {}, expected one below {}", data.edge.channel, topology.channels.size()));
  }
  const ChannelSpec& channel = topology.channels[data.edge.channel];
  const Port& port = inlet_of(topology, channel);
  if (!sender.has_role(data.from_producer ? channel.from_role : channel.to_role) ||
      data.request != (port.kind == ChannelKind::kRequest)) {
    return denied(sender, fmt::format("{} on {}", data.what, channel.name()));
  }
  const std::int64_t room = port.kind == ChannelKind::kLatest ? 1 : channel.capacity;
  if (std::int64_t{data.credits} > room) {
    return denied(sender, fmt::format("{} credits on {}, which has {}", data.credits, channel.name(), room));
  }
  return data.carries == nullptr ? Status() : may_carry(topology, sender, data, channel, port);
}

Status may_send_control(const Topology& topology, const transport::Identity& sender, bool to_chief,
                        const Control& control) {
  const auto order = [&] { return denied(sender, fmt::format("the order {}", messages::to_string(control.kind))); };
  if (sender.has_role(kOperatorRole)) {
    if (to_chief && speaks(Speaker::kOperator, control.kind)) return {};
    return order();
  }
  if (!to_chief) {
    if (sender.has_role(transport::kChiefRole) && speaks(Speaker::kChief, control.kind)) return {};
    return order();
  }
  if (!takes_part(topology, sender) || !speaks(Speaker::kNode, control.kind)) return order();
  for (const messages::ControlInstance& instance : control.instances) {
    if (!sender.has_role(instance.role)) {
      return denied(sender, fmt::format("{} of the role {}", messages::to_string(control.kind), instance.role));
    }
  }
  return {};
}

}  // namespace

Status may_send(const Topology& topology, const transport::Identity& sender, bool to_chief,
                const RemoteMessage& message) {
  if (const auto* control = std::get_if<Control>(&message)) {
    return may_send_control(topology, sender, to_chief, *control);
  }
  if (sender.has_role(kOperatorRole)) return denied(sender, "anything but a question or the end");
  if (const auto* frame = std::get_if<FrameMessage>(&message)) {
    return may_send_data(topology, sender, {.edge = frame->route.edge, .carries = &frame->frame, .what = "frames"});
  }
  if (const auto* credit = std::get_if<CreditMessage>(&message)) {
    return may_send_data(
        topology, sender,
        {.edge = credit->route.edge, .from_producer = false, .credits = credit->credits, .what = "credits"});
  }
  if (const auto* call = std::get_if<CallMessage>(&message)) {
    return may_send_data(topology, sender,
                         {.edge = call->route.edge, .request = true, .carries = &call->frame, .what = "calls"});
  }
  if (const auto* answer = std::get_if<AnswerMessage>(&message)) {
    return may_send_data(topology, sender,
                         {.edge = answer->route.edge,
                          .from_producer = false,
                          .request = true,
                          .carries = answer->error ? nullptr : &answer->frame,
                          .answer = true,
                          .what = "answers"});
  }
  if (const auto* group = std::get_if<GroupMessage>(&message)) {
    const bool exists = group->role < topology.roles.size() && topology.roles[group->role].group;
    if (exists && sender.has_role(topology.roles[group->role].name)) return {};
    return denied(sender, exists ? fmt::format("to the group of {}", topology.roles[group->role].name)
                                 : fmt::format("to a group of role {}, which has none", group->role));
  }
  if (std::holds_alternative<MarkerMessage>(message) && takes_part(topology, sender)) return {};
  return denied(sender, "markers");
}

}  // namespace troupe::actors
