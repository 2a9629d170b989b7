#include <troupe/actors/network/detail/wire_head.hpp>

#include <fmt/format.h>

#include <cstring>

namespace troupe::actors {
namespace {

using transport::SharedReference;
using transport::StreamHead;

enum class Type : std::uint8_t { kFrame = 1, kCredit, kCall, kAnswer, kMarker, kControl, kOffer, kGroup };
constexpr std::uint8_t kShared = 1;  // flag: the body is where the reference says
constexpr std::uint8_t kFailed = 2;  // flag: code and body are an error

/// Longest text of an error that travels.
constexpr std::size_t kErrorBytesMax = 4096;

struct Wire {
  std::uint8_t type = 0;
  std::uint8_t flags = 0;
  std::uint16_t code = 0;
  std::uint32_t channel = 0, producer = 0, consumer = 0;
  std::uint32_t producer_incarnation = 0, consumer_incarnation = 0;
  std::uint64_t number = 0;
  SharedReference reference;
};
static_assert(sizeof(Wire) == sizeof(StreamHead), "it travels as it is");

Wire wire_of(const StreamHead& head) {
  Wire wire;
  std::memcpy(&wire, head.data(), sizeof(wire));
  return wire;
}

StreamHead head_of(const Wire& wire) {
  StreamHead head;
  std::memcpy(head.data(), &wire, sizeof(wire));
  return head;
}

Wire routed(Type type, const Route& route, std::uint64_t number) {
  Wire wire;
  wire.type = static_cast<std::uint8_t>(type);
  wire.channel = route.edge.channel;
  wire.producer = route.edge.producer;
  wire.consumer = route.edge.consumer;
  wire.producer_incarnation = route.producer_incarnation;
  wire.consumer_incarnation = route.consumer_incarnation;
  wire.number = number;
  return wire;
}

/// Which types have a body, and which flags.
Status check_shape(const Wire& wire, std::size_t body_bytes) {
  const auto type = static_cast<Type>(wire.type);
  const bool data = type == Type::kFrame || type == Type::kCall || type == Type::kAnswer;
  const bool failed = (wire.flags & kFailed) != 0;
  const bool shared = (wire.flags & kShared) != 0;
  const bool flags = wire.flags <= (kShared | kFailed) && (!shared || data) &&
                     (!failed || (type == Type::kAnswer && !shared && body_bytes <= kErrorBytesMax));
  const bool code = failed ? wire.code <= static_cast<std::uint16_t>(kLastCode) : wire.code == 0;
  const bool body = data || type == Type::kControl || type == Type::kGroup;
  if (flags && code && (body_bytes > 0) == body) return {};
  return Error{Code::kCorrupt, fmt::format("a message of type {}, flags {}, code {} and {} bytes makes no sense",
                                           wire.type, wire.flags, wire.code, body_bytes)};
}

}  // namespace

StreamHead pack_head(const RemoteMessage& message, messages::Frame& frame, std::string& error_text) {
  Wire wire;
  if (const auto* data = std::get_if<FrameMessage>(&message)) {
    wire = routed(Type::kFrame, data->route, 0);
    frame = data->frame;
  } else if (const auto* credit = std::get_if<CreditMessage>(&message)) {
    wire = routed(Type::kCredit, credit->route, (std::uint64_t{credit->taken} << 32) | credit->credits);
  } else if (const auto* call = std::get_if<CallMessage>(&message)) {
    wire = routed(Type::kCall, call->route, call->ticket);
    frame = call->frame;
  } else if (const auto* answer = std::get_if<AnswerMessage>(&message)) {
    wire = routed(Type::kAnswer, answer->route, answer->ticket);
    if (answer->error) {
      wire.flags |= kFailed;
      wire.code = static_cast<std::uint16_t>(answer->error->code);
      error_text = answer->error->message.substr(0, kErrorBytesMax);
      if (error_text.empty()) error_text = "failed";
    } else {
      frame = answer->frame;
    }
  } else if (const auto* marker = std::get_if<MarkerMessage>(&message)) {
    wire.type = static_cast<std::uint8_t>(Type::kMarker);
    wire.number = marker->cut;
  } else if (const auto* group = std::get_if<GroupMessage>(&message)) {
    wire.type = static_cast<std::uint8_t>(Type::kGroup);
    wire.channel = group->role;
    wire.producer = group->from;
    wire.consumer = group->to;
    frame = group->frame;
  } else {
    wire.type = static_cast<std::uint8_t>(Type::kControl);
  }
  return head_of(wire);
}

void set_reference(StreamHead& head, const SharedReference& reference) {
  Wire wire = wire_of(head);
  wire.flags |= kShared;
  wire.reference = reference;
  head = head_of(wire);
}

bool has_reference(const StreamHead& head) { return (wire_of(head).flags & kShared) != 0; }
SharedReference reference_of(const StreamHead& head) { return wire_of(head).reference; }

Result<RemoteMessage> unpack_message(const transport::StreamMessage& message) {
  const Wire wire = wire_of(message.head);
  TROUPE_TRY(check_shape(wire, message.body.size()));
  const Route route{{wire.channel, wire.producer, wire.consumer}, wire.producer_incarnation, wire.consumer_incarnation};
  messages::Frame frame;
  if (!message.body.empty() && (wire.flags & kFailed) == 0) {
    TROUPE_ASSIGN(frame, messages::Frame::adopt(message.body, message.owner));
  }
  switch (static_cast<Type>(wire.type)) {
    case Type::kFrame:
      return RemoteMessage(FrameMessage{route, std::move(frame)});
    case Type::kCredit: {
      const auto credits = static_cast<std::uint32_t>(wire.number);
      const auto taken = static_cast<std::uint32_t>(wire.number >> 32);
      return RemoteMessage(CreditMessage{route, credits, taken});
    }
    case Type::kCall:
      return RemoteMessage(CallMessage{route, wire.number, std::move(frame)});
    case Type::kAnswer: {
      AnswerMessage answer{route, wire.number, std::nullopt, std::move(frame)};
      if ((wire.flags & kFailed) != 0) {
        const auto* text = reinterpret_cast<const char*>(message.body.data());
        answer.error = Error{static_cast<Code>(wire.code), std::string(text, message.body.size())};
      }
      return RemoteMessage(std::move(answer));
    }
    case Type::kMarker:
      return RemoteMessage(MarkerMessage{wire.number});
    case Type::kControl: {
      TROUPE_ASSIGN(auto control, messages::read_control(frame));
      return RemoteMessage(std::move(control));
    }
    case Type::kGroup:
      return RemoteMessage(GroupMessage{wire.channel, wire.producer, wire.consumer, std::move(frame)});
    case Type::kOffer:
      break;
  }
  return Error{Code::kCorrupt, fmt::format("got a message of unknown type {}", wire.type)};
}

StreamHead offer_head() {
  Wire wire;
  wire.type = static_cast<std::uint8_t>(Type::kOffer);
  return head_of(wire);
}

bool is_offer(const StreamHead& head) { return wire_of(head).type == static_cast<std::uint8_t>(Type::kOffer); }

std::string pack_offer(const transport::SharedOffer& offer) {
  // Lengths first: the secret is random bytes.
  std::string text = fmt::format("{} {} {}\n", offer.host.size(), offer.path.size(), offer.secret.size());
  return text + offer.host + offer.path + offer.secret;
}

Result<transport::SharedOffer> unpack_offer(std::span<const std::byte> body) {
  const std::string text(reinterpret_cast<const char*>(body.data()), body.size());
  const std::size_t line = text.find('\n');
  unsigned host = 0, path = 0, secret = 0;
  if (line == std::string::npos || std::sscanf(text.c_str(), "%8u %8u %8u\n", &host, &path, &secret) != 3 ||
      text.size() - line - 1 != std::size_t{host} + path + secret) {
    return Error{Code::kCorrupt, fmt::format("an offer of shared memory of {} bytes does not parse", body.size())};
  }
  const std::string rest = text.substr(line + 1);
  return transport::SharedOffer{rest.substr(0, host), rest.substr(host, path), rest.substr(host + path)};
}

}  // namespace troupe::actors
