// What comes in: links that are let in or not, messages that are believed or not, operators.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include <troupe/actors/network/authorization.hpp>
#include <troupe/actors/network/detail/node_network_impl.hpp>
#include <troupe/actors/network/detail/wire_head.hpp>
#include <troupe/core/log.hpp>
#include <troupe/core/text.hpp>
#include <troupe/transport/dial.hpp>
#include <troupe/transport/join.hpp>

namespace troupe::actors {
namespace {

using messages::Control;
using messages::ControlKind;
using transport::Identity;
using transport::Link;

constexpr const char* kOperatorService = "operator";
constexpr Duration kQuestionTimeout = std::chrono::milliseconds(500);
constexpr Duration kAnswerTimeout = std::chrono::seconds(1);
/// Operators that wait for an answer, at a time; beyond, the oldest goes.
constexpr std::size_t kOperatorsMax = 16;
/// A node whose control lane has said something within this time lives, and nobody else gets its name (F20). Its
/// heartbeats are ten times as frequent, but less so in a run of many nodes.
constexpr Duration kLivesFor = std::chrono::seconds(1);
constexpr int kLivesForHeartbeats = 4;
/// Processes of a node's earlier life that are remembered; one that was forgotten would have to wait, not end.
constexpr std::size_t kReplacedMax = 64;
/// Who sends so many messages that make no sense within this time is shut out for as long (B6).
constexpr std::size_t kSenselessMax = 100;
constexpr Duration kSenselessWindow = std::chrono::seconds(10);

}  // namespace

/// On the listener's thread.
void NodeNetwork::Impl::take(std::unique_ptr<Link> link) {
  const bool bears_token = link->peer().has_role(transport::kJoinRole);
  if (bears_token && !options.on_join) {
    return refuse(Error{Code::kInvalidArgument, "TRP-S711 the bearer of a token came to a node that is not the chief"});
  }
  {
    const std::lock_guard lock(mutex);
    if (stopped) return;
    if (acceptor == nullptr) {
      if (early.size() < transport::StreamAcceptor::kWaitingMax) early.push_back(std::move(link));
      return;
    }
  }
  (bears_token ? visitors : acceptor)->take(std::move(link));
}

/// On the visitors' own thread.
void NodeNetwork::Impl::serve(std::unique_ptr<Link> visitor) {
  if (visitor->peer().has_role(transport::kJoinRole)) {
    options.on_join(std::move(visitor));
  } else {
    serve_operator(std::move(visitor));
  }
}

/// On the acceptor's thread.
void NodeNetwork::Impl::greet(std::unique_ptr<Link> link, transport::StreamHello hello) {
  const Identity identity = link->peer();
  const bool asks = identity.has_role(kOperatorRole);
  if (asks && hello.name == kOperatorService) return visitors->take(std::move(link));
  const auto name = std::ranges::find(kLaneNames, hello.name);
  if (asks || name == kLaneNames.end()) {  // an operator is no node and has no lanes
    return refuse(Error{Code::kInvalidArgument,
                        fmt::format("TRP-S711 node {} (roles {}) may not open the stream {}", identity.node,
                                    fmt::join(identity.roles, "+"), printable(hello.name))});
  }
  const auto lane = static_cast<std::size_t>(name - kLaneNames.begin());
  if (lane != kControlLane && hello.to != own_birth) {
    // This process is not let in yet, or not any more. It would confirm the frames and drop them, and the one that they
    // are for would never get them.
    const Error other{Code::kUnavailable, fmt::format("node {}: the lane {} is for another process of this node",
                                                      options.self.node, hello.name)};
    log::debug("from {}: {}", identity.node, other.message);
    return transport::send_refusal(*link, other);
  }
  const auto from = peer(identity.node);
  std::shared_ptr<transport::StreamReceiver> old;
  {
    std::unique_lock lock(from->mutex);
    if (Status may = admit(*from, lane, hello); !may.ok()) {
      lock.unlock();
      refuse(may.error());
      return transport::send_refusal(*link, may.error());
    }
    Inbound& inbound = from->in[lane];
    if (inbound.receiver != nullptr && inbound.identity != identity) old = std::exchange(inbound.receiver, nullptr);
    if (inbound.receiver == nullptr) {
      transport::StreamReceiverOptions stream;
      stream.peer = identity.node;
      stream.urgent = lane != kBulkLane;
      stream.pool = receive_pool;
      stream.on_message = [this, weak = std::weak_ptr<PeerNode>(from), identity,
                           lane](transport::StreamMessage message) {
        if (const auto sender = weak.lock()) receive(sender, identity, lane, std::move(message));
      };
      auto made = transport::StreamReceiver::make(std::move(stream));
      if (!made.ok()) return say_no_lane(*from, lane, made.error());
      inbound.receiver = std::move(made).value();
    }
    inbound.identity = identity;
    if (inbound.session != hello.session && inbound.session != transport::StreamId{}) {
      inbound.replaced.push_back(inbound.session);
      if (inbound.replaced.size() > kReplacedMax) inbound.replaced.pop_front();
    }
    inbound.session = hello.session;
    inbound.receiver->attach(std::move(link), std::move(hello));
  }
  drop(std::move(old));
}

/// Whether a lane may begin or go on; with the peer's lock held.
Status NodeNetwork::Impl::admit(PeerNode& from, std::size_t lane, const transport::StreamHello& hello) {
  const Duration now = clock.now();
  if (from.closed) return Error{Code::kUnavailable, "the node ends"};
  if (now < from.shut_out_until) {
    return Error{Code::kUnavailable, fmt::format("TRP-S715 node {} is shut out for another {:.1f} s", from.name,
                                                 seconds(from.shut_out_until - now))};
  }
  const Inbound& holder = from.in[lane];
  if (std::ranges::find(holder.replaced, hello.session) != holder.replaced.end()) {
    return Error{Code::kCancelled, fmt::format("TRP-F111 another process has taken the place of this one as {}; it "
                                               "must end",
                                               from.name)};
  }
  const bool lives = lane == kControlLane && holder.receiver != nullptr && holder.session != hello.session &&
                     from.heard && now - *from.heard < std::max(kLivesFor, kLivesForHeartbeats * from.heard_within) &&
                     holder.receiver->stats().connected;
  if (!lives) return {};
  const transport::Address where = from.known     ? transport::Address{from.known->host, from.known->port}
                                   : from.control ? *from.control
                                                  : transport::Address{};
  return Error{Code::kUnavailable, fmt::format("TRP-E161 node id {} is already in use by {} (incarnation {})",
                                               from.name, to_string(where), from.known ? from.known->incarnation : 0)};
}

/// On the thread of the lane.
void NodeNetwork::Impl::receive(const std::shared_ptr<PeerNode>& from, const Identity& identity, std::size_t lane,
                                transport::StreamMessage message) {
  if (lane == kControlLane) {
    const std::lock_guard lock(from->mutex);
    const Duration now = clock.now();
    from->heard_within = now - from->heard.value_or(now);
    from->heard = now;
  }
  if (lane == kBulkLane && is_offer(message.head)) {
    auto offer = unpack_offer(message.body);
    auto connected = offer.ok() ? transport::SharedReceiver::connect(*offer)
                                : Result<std::unique_ptr<transport::SharedReceiver>>(offer.error());
    if (!connected.ok()) {
      const auto here = transport::host_identity();
      const bool expected = offer.ok() && here.ok() && !transport::same_machine(offer->host, *here);
      return expected ? log::debug("shared memory of {}: {}", from->name, connected.error().message)
                      : note_memory(from->name, connected.error().message);
    }
    note_memory(from->name, "");
    const std::lock_guard lock(from->mutex);
    from->shared_in = std::move(connected).value();
    return;
  }
  auto opened = open(*from, lane, std::move(message));
  if (opened.ok()) return deliver(from, identity, std::move(opened).value());
  if (opened.error().code == Code::kUnavailable) return log::debug("from {}: {}", from->name, opened.error().message);
  senseless(from, opened.error());
}

/// The message with its payload. Errors: kUnavailable: it leads into memory of an earlier time; kCorrupt.
Result<RemoteMessage> NodeNetwork::Impl::open(PeerNode& from, std::size_t lane, transport::StreamMessage message) {
  if (has_reference(message.head)) {
    std::shared_ptr<transport::SharedReceiver> memory;
    {
      const std::lock_guard lock(from.mutex);
      memory = from.shared_in;
    }
    // It was meant for the process before this one, or before another offer.
    if (memory == nullptr) return Error{Code::kUnavailable, "a reference to memory that was never offered"};
    auto opened = memory->open(reference_of(message.head));
    if (!opened.ok()) {
      return Error{opened.error().code, fmt::format("TRP-S714 from {}: {}", from.name, opened.error().message)};
    }
    message.body = opened->bytes;
    message.owner = std::move(opened->owner);
  }
  auto unpacked = unpack_message(message);
  if (unpacked.ok() && lane_of(*unpacked) == lane) return unpacked;
  return Error{Code::kCorrupt, fmt::format("TRP-S705 from {}: {}", from.name,
                                           unpacked.ok() ? fmt::format("a message on the lane {}", kLaneNames[lane])
                                                         : unpacked.error().message)};
}

void NodeNetwork::Impl::deliver(const std::shared_ptr<PeerNode>& from, const Identity& identity,
                                RemoteMessage message) {
  if (Status may = may_send(*options.topology, identity, leads(), message); !may.ok()) {
    if (events.refused) events.refused(from->name, message);
    return refuse(may.error());
  }
  if (auto* control = std::get_if<Control>(&message)) {
    control->node = from->name;  // who it is, its certificate says, whatever the message does
    const bool tells_address = control->kind == ControlKind::kJoin || control->kind == ControlKind::kRoundEnded;
    if (leads() && tells_address) joins(from, identity, *control);
  }
  events.received(from->name, std::move(message));
}

/// Where the chief answers a node is what the node says; that it is this node who listens there, its certificate.
void NodeNetwork::Impl::joins(const std::shared_ptr<PeerNode>& from, const Identity& identity, Control& join) {
  join.texts = identity.roles;
  if (join.nodes.empty()) return;
  join.nodes.front().name = from->name;
  const transport::Address address{join.nodes.front().host, join.nodes.front().port};
  std::shared_ptr<transport::StreamSender> old;
  {
    const std::lock_guard lock(from->mutex);
    if (from->control == address && from->birth == join.birth) return;
    old = std::exchange(from->out[kControlLane], nullptr);
    from->control = address;
    from->birth = join.birth;
  }
  drop(std::move(old));
}

/// As refuse(), and who does it again and again is shut out for a while: it is broken, or worse.
void NodeNetwork::Impl::senseless(const std::shared_ptr<PeerNode>& from, const Error& error) {
  {
    const std::lock_guard lock(from->mutex);
    const Duration now = clock.now();
    if (now < from->shut_out_until) return;  // its lanes are about to end
    refuse(error);
    if (from->senseless == 0 || now - from->senseless_since > kSenselessWindow) {
      from->senseless = 0;
      from->senseless_since = now;
    }
    if (++from->senseless < kSenselessMax) return;
    from->senseless = 0;
    from->shut_out_until = now + kSenselessWindow;
    for (Inbound& lane : from->in) drop(std::exchange(lane.receiver, nullptr));
  }
  log::error("TRP-S715 node {} sent {} messages that make no sense within {:.0f} s: it is shut out for as long",
             from->name, kSenselessMax, seconds(kSenselessWindow));
}

std::map<std::string, std::uint64_t> NodeNetwork::refused() const {
  std::map<std::string, std::uint64_t> all = impl_->listener->rejected();
  const std::lock_guard lock(impl_->mutex);
  for (const auto& [code, count] : impl_->refusals) all[code] += count;
  return all;
}

// ---- operators ----

void NodeNetwork::Impl::serve_operator(std::unique_ptr<Link> link) {
  const Identity identity = link->peer();
  auto received = link->receive(kQuestionTimeout);
  if (!received.ok()) return log::debug("operator: {}", received.error().message);
  auto frame = frames.copy(received->payload);
  if (!frame.ok()) return refuse(frame.error());
  auto question = messages::read_control(*frame);
  if (!question.ok()) return refuse(Error{Code::kInvalidArgument, "TRP-S705 operator: " + question.error().message});
  if (Status may = may_send(*options.topology, identity, leads(), *question); !may.ok()) return refuse(may.error());
  {
    const std::lock_guard lock(mutex);
    if (operators.size() >= kOperatorsMax) operators.pop_front();
    operators.push_back(std::move(link));
  }
  events.received(kOperator, std::move(question).value());
}

void NodeNetwork::Impl::answer_operators(const Control& answer) {
  std::deque<std::unique_ptr<Link>> waiting;
  {
    const std::lock_guard lock(mutex);
    std::swap(waiting, operators);
  }
  auto frame = messages::make_control(frames, answer);
  for (const auto& link : waiting) {
    const Status sent =
        frame.ok() ? link->send(transport::FrameKind::kControl, frame->bytes(), kAnswerTimeout) : Status(frame.error());
    if (!sent.ok()) log::warn("answer to the operator: {}", sent.error().message);
  }
}

Result<Control> ask_chief(const transport::Address& chief, const Identity& self,
                          const transport::Credentials& credentials, const Control& question, Duration timeout) {
  const SteadyClock clock;
  const Duration deadline = clock.now() + timeout;
  transport::LinkOptions options;
  options.side = transport::Side::kDial;
  options.handshake_timeout = deadline - clock.now();
  options.admit = [&](const Identity& peer) -> Status {
    if (peer.run == self.run && peer.has_role(transport::kChiefRole)) return {};
    return Error{Code::kInvalidArgument, fmt::format("node {} of run {} answers at {}, expected the chief of run {}",
                                                     peer.node, peer.run, transport::to_string(chief), self.run)};
  };
  TROUPE_ASSIGN(const auto link, transport::dial_link(chief, credentials, options, timeout));
  transport::StreamHello hello;
  hello.name = kOperatorService;
  TROUPE_TRY(transport::send_hello(*link, hello, deadline - clock.now()));
  messages::FramePool pool;
  TROUPE_ASSIGN(const messages::Frame frame, messages::make_control(pool, question));
  TROUPE_TRY(link->send(transport::FrameKind::kControl, frame.bytes(), deadline - clock.now()));
  TROUPE_ASSIGN(const transport::ReceivedFrame answer, link->receive(deadline - clock.now()));
  TROUPE_ASSIGN(const messages::Frame copy, pool.copy(answer.payload));
  return messages::read_control(copy);
}

}  // namespace troupe::actors
