#include <troupe/actors/node_network.hpp>

#include <fmt/format.h>

#include <array>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include <troupe/actors/authorization.hpp>
#include <troupe/actors/detail/wire_head.hpp>
#include <troupe/core/log.hpp>
#include <troupe/transport/dial.hpp>
#include <troupe/transport/join.hpp>
#include <troupe/transport/join_token.hpp>
#include <troupe/transport/listener.hpp>
#include <troupe/transport/shared_memory.hpp>
#include <troupe/transport/stream.hpp>

namespace troupe::actors {
namespace {

using messages::Control;
using messages::ControlKind;
using transport::Identity;
using transport::Link;

enum Lane : std::size_t { kControlLane = 0, kUrgentLane = 1, kBulkLane = 2, kLanes = 3 };
constexpr std::array<const char*, kLanes> kLaneNames = {"control", "urgent", "bulk"};
constexpr const char* kOperatorService = "operator";

constexpr Duration kDialTimeout = std::chrono::seconds(3);
constexpr Duration kHelloTimeout = std::chrono::milliseconds(500);
constexpr Duration kAnswerTimeout = std::chrono::seconds(1);
/// Things to do and operators that wait for an answer, at a time; beyond, a link is closed, which its dialler notices.
constexpr std::size_t kTasksMax = 1024;
constexpr std::size_t kOperatorsMax = 16;

std::size_t lane_of(const RemoteMessage& message) {
  if (std::holds_alternative<Control>(message)) return kControlLane;
  return std::holds_alternative<CreditMessage>(message) ? kUrgentLane : kBulkLane;
}

}  // namespace

/// Another node, as far as this one has to do with it.
struct PeerNode {
  std::string name;
  std::mutex mutex;                            ///< of everything below; never held while a lane is stopped
  std::optional<messages::ControlNode> known;  ///< as the chief said last
  std::optional<transport::Address> control;   ///< where its control lane is dialled
  std::uint64_t birth = 0;                     ///< of the process that its control lane leads to
  std::array<std::shared_ptr<transport::StreamSender>, kLanes> out;
  std::array<std::shared_ptr<transport::StreamReceiver>, kLanes> in;
  std::shared_ptr<transport::SharedSender> shared_out;
  std::shared_ptr<transport::SharedReceiver> shared_in;
};

struct NodeNetwork::Impl {
  explicit Impl(NodeNetworkOptions options_in) : options(std::move(options_in)) {}

  bool leads() const { return !options.chief; }
  transport::LinkOptions link_options(transport::Side side, transport::Admit admit, std::stop_token token = {}) const {
    transport::LinkOptions link;
    link.side = side;
    link.admit = std::move(admit);
    link.stop = std::move(token);
    return link;
  }

  Status listen();
  std::shared_ptr<PeerNode> peer(const std::string& name);
  std::shared_ptr<transport::StreamSender> sender(const std::shared_ptr<PeerNode>& to, std::size_t lane);
  void offer_memory(PeerNode& to);
  void post(std::function<void()> task);
  void work();
  void greet(std::unique_ptr<Link> link);
  void serve_operator(std::unique_ptr<Link> link);
  void receive(const std::shared_ptr<PeerNode>& from, const Identity& identity, transport::StreamMessage message);
  void deliver(const std::shared_ptr<PeerNode>& from, const Identity& identity, RemoteMessage message);
  void answer_operators(const Control& answer);
  void refuse(const Error& error);
  void drop(std::array<std::shared_ptr<transport::StreamSender>, kLanes> lanes);

  const NodeNetworkOptions options;
  messages::FramePool frames;
  std::shared_ptr<transport::ReceivePool> receive_pool = std::make_shared<transport::ReceivePool>();
  NetworkEvents events;

  mutable std::mutex mutex;  ///< of the maps and the queue
  std::condition_variable changed;
  std::map<std::string, std::shared_ptr<PeerNode>> peers;
  std::map<std::string, std::uint64_t> refusals;
  std::deque<std::function<void()>> tasks;
  std::deque<std::unique_ptr<Link>> accepted;   ///< to be greeted; before start() they wait
  std::deque<std::unique_ptr<Link>> operators;  ///< wait for an answer
  bool stopped = false;

  std::thread worker;  ///< greets peers, ends lanes, answers operators: what may take a moment
  std::unique_ptr<transport::Listener> listener;
};

// ---- making and ending ----

NodeNetwork::NodeNetwork(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
NodeNetwork::~NodeNetwork() { stop(); }

Result<std::unique_ptr<NodeNetwork>> NodeNetwork::make(NodeNetworkOptions options) {
  auto impl = std::make_unique<Impl>(std::move(options));
  TROUPE_TRY(impl->listen());
  return std::unique_ptr<NodeNetwork>(new NodeNetwork(std::move(impl)));
}

Status NodeNetwork::Impl::listen() {
  auto admit = [run = options.self.run](const Identity& peer) -> Status {
    if (peer.run == run) return {};
    return Error{Code::kInvalidArgument, fmt::format("TRP-S713 a node of run {} came to run {}", peer.run, run)};
  };
  TROUPE_ASSIGN(listener, transport::Listener::start(options.listen, options.credentials,
                                                     link_options(transport::Side::kAccept, admit),
                                                     [this](std::unique_ptr<Link> link) {
                                                       const std::lock_guard lock(mutex);
                                                       if (stopped || accepted.size() >= kTasksMax) return;
                                                       accepted.push_back(std::move(link));
                                                       changed.notify_all();
                                                     }));
  return {};
}

const transport::Address& NodeNetwork::address() const { return impl_->listener->address(); }

void NodeNetwork::start(NetworkEvents events) {
  impl_->events = std::move(events);
  impl_->worker = std::thread([impl = impl_.get()] { impl->work(); });
  if (impl_->options.chief) {
    const auto chief = impl_->peer(kChiefNode);
    {
      const std::lock_guard lock(chief->mutex);
      chief->control = impl_->options.chief;
    }
    (void)impl_->sender(chief, kControlLane);
  }
}

void NodeNetwork::stop() {
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->stopped) return;
    impl_->stopped = true;
    impl_->changed.notify_all();
  }
  if (impl_->worker.joinable()) impl_->worker.join();
  impl_->listener->stop();
  for (auto& [name, peer] : impl_->peers) {
    for (auto& lane : peer->out) {
      if (lane) lane->stop();
    }
    for (auto& lane : peer->in) {
      if (lane) lane->stop();
    }
  }
  impl_->peers.clear();
  impl_->operators.clear();
  impl_->events = {};  // they hold actors, which could not end otherwise
}

void NodeNetwork::Impl::post(std::function<void()> task) {
  const std::lock_guard lock(mutex);
  if (stopped || tasks.size() >= kTasksMax) return;
  tasks.push_back(std::move(task));
  changed.notify_all();
}

void NodeNetwork::Impl::work() {
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [this] { return stopped || !tasks.empty() || !accepted.empty(); });
    if (stopped) return;
    if (!tasks.empty()) {
      const std::function<void()> task = std::move(tasks.front());
      tasks.pop_front();
      lock.unlock();
      task();
    } else {
      std::unique_ptr<Link> link = std::move(accepted.front());
      accepted.pop_front();
      lock.unlock();
      greet(std::move(link));
    }
    lock.lock();
  }
}

void NodeNetwork::Impl::drop(std::array<std::shared_ptr<transport::StreamSender>, kLanes> lanes) {
  post([lanes = std::move(lanes)] {
    for (const auto& lane : lanes) {
      if (lane) lane->stop();
    }
  });
}

void NodeNetwork::Impl::refuse(const Error& error) {
  const std::string code = error.message.substr(0, error.message.find(' '));
  std::uint64_t count = 0;
  {
    const std::lock_guard lock(mutex);
    count = ++refusals[code];
  }
  // The first of a kind, then the tenth, the hundredth ...: a stream of them must not fill the log.
  for (std::uint64_t power = 1; power <= count; power *= 10) {
    if (power == count) log::warn("{} ({} so far)", error.message, count);
  }
}

std::map<std::string, std::uint64_t> NodeNetwork::refused() const {
  std::map<std::string, std::uint64_t> all = impl_->listener->rejected();
  const std::lock_guard lock(impl_->mutex);
  for (const auto& [code, count] : impl_->refusals) all[code] += count;
  return all;
}

// ---- peers and lanes ----

std::shared_ptr<PeerNode> NodeNetwork::Impl::peer(const std::string& name) {
  const std::lock_guard lock(mutex);
  std::shared_ptr<PeerNode>& peer = peers[name];
  if (peer == nullptr) {
    peer = std::make_shared<PeerNode>();
    peer->name = name;
  }
  return peer;
}

/// The lane to a peer, made when it is first needed. Null when nobody has said where the peer is.
std::shared_ptr<transport::StreamSender> NodeNetwork::Impl::sender(const std::shared_ptr<PeerNode>& to,
                                                                   std::size_t lane) {
  const std::lock_guard lock(to->mutex);
  if (to->out[lane] != nullptr) return to->out[lane];
  std::optional<transport::Address> where;
  if (lane == kControlLane) {
    where = to->control;
  } else if (to->known) {
    where = transport::Address{to->known->host, to->known->port};
  }
  if (!where) return nullptr;
  transport::StreamSenderOptions stream;
  stream.name = kLaneNames[lane];
  stream.connect = [this, address = *where, name = to->name](std::stop_token token) -> Result<std::unique_ptr<Link>> {
    TROUPE_ASSIGN(const int socket, transport::dial(address, kDialTimeout, token));
    auto admit = [&](const Identity& peer) -> Status {
      if (peer.run == options.self.run && peer.node == name) return {};
      return Error{Code::kInvalidArgument,
                   fmt::format("TRP-S710 node {} of run {} answers at {}, expected {} of run {}", peer.node, peer.run,
                               transport::to_string(address), name, options.self.run)};
    };
    return Link::open(socket, options.credentials, link_options(transport::Side::kDial, admit, token));
  };
  const std::weak_ptr<PeerNode> weak = to;
  if (lane == kControlLane) {
    stream.up = [this, name = to->name](const transport::StreamUp&) { events.found(name); };
    stream.down = [this, name = to->name](const Error& reason) {
      log::debug("control lane to {}: {}", name, reason.message);
      events.lost(name);
    };
  } else if (lane == kBulkLane) {
    stream.up = [this, weak](const transport::StreamUp& up) {
      if (!up.new_receiver) return;
      if (const auto to = weak.lock()) offer_memory(*to);
    };
    stream.down = [name = to->name](const Error& reason) { log::debug("bulk lane to {}: {}", name, reason.message); };
  }
  auto made = transport::StreamSender::make(std::move(stream));
  if (!made.ok()) {
    log::error("lane {} to {}: {}", kLaneNames[lane], to->name, made.error().message);
    return nullptr;
  }
  to->out[lane] = std::move(made).value();
  return to->out[lane];
}

/// Tells a new process at the other end where our shared memory is; if it cannot use it, all goes over the link.
void NodeNetwork::Impl::offer_memory(PeerNode& to) {
  auto made = transport::SharedSender::make();
  if (!made.ok()) return log::debug("no shared memory: {}", made.error().message);
  std::shared_ptr<transport::SharedSender> memory = std::move(made).value();
  auto body = std::make_shared<std::string>(pack_offer(memory->offer()));
  transport::StreamMessage message;
  message.head = offer_head();
  message.body = std::as_bytes(std::span(*body));
  message.owner = body;
  std::shared_ptr<transport::StreamSender> bulk;
  {
    const std::lock_guard lock(to.mutex);
    to.shared_out = std::move(memory);
    bulk = to.out[kBulkLane];
  }
  if (bulk) (void)bulk->send(std::move(message));
}

void NodeNetwork::know(const std::vector<messages::ControlNode>& nodes) {
  std::map<std::string, messages::ControlNode> listed;
  for (const messages::ControlNode& node : nodes) {
    if (node.name != impl_->options.self.node) listed[node.name] = node;
  }
  for (const auto& [name, node] : listed) (void)impl_->peer(name);
  std::vector<std::shared_ptr<PeerNode>> all;
  {
    const std::lock_guard lock(impl_->mutex);
    for (const auto& [name, peer] : impl_->peers) all.push_back(peer);
  }
  for (const auto& peer : all) {
    const auto found = listed.find(peer->name);
    if (found != listed.end() && found->second.port == 0) continue;
    const std::lock_guard lock(peer->mutex);
    const bool same = found != listed.end() && peer->known && peer->known->incarnation == found->second.incarnation &&
                      peer->known->host == found->second.host && peer->known->port == found->second.port;
    if (same || (found == listed.end() && !peer->known)) continue;
    // Another process, or none: what waits for the one before means nothing to it.
    std::array<std::shared_ptr<transport::StreamSender>, kLanes> old;
    for (const std::size_t lane : {kUrgentLane, kBulkLane}) old[lane] = std::exchange(peer->out[lane], nullptr);
    peer->shared_out.reset();
    peer->known = found == listed.end() ? std::nullopt : std::optional(found->second);
    impl_->drop(std::move(old));
  }
}

// ---- sending ----

void NodeNetwork::send(const std::string& node, RemoteMessage message) {
  if (node == kOperator) {
    if (auto* control = std::get_if<Control>(&message)) {
      impl_->post([impl = impl_.get(), answer = std::move(*control)] { impl->answer_operators(answer); });
    }
    return;
  }
  std::shared_ptr<PeerNode> to;
  {
    const std::lock_guard lock(impl_->mutex);
    const auto found = impl_->peers.find(node);
    if (impl_->stopped || found == impl_->peers.end()) return;
    to = found->second;
  }
  const std::size_t lane = lane_of(message);
  const auto stream = impl_->sender(to, lane);
  if (stream == nullptr) return;
  messages::Frame frame;
  std::string error_text;
  auto head = pack_head(message, frame, error_text);
  if (auto* control = std::get_if<Control>(&message)) {
    auto made = messages::make_control(impl_->frames, *control);
    if (!made.ok()) return log::error("to {}: {}", node, made.error().message);
    frame = std::move(made).value();
  }
  transport::StreamMessage out;
  if (!error_text.empty()) {
    auto text = std::make_shared<std::string>(std::move(error_text));
    out.body = std::as_bytes(std::span(*text));
    out.owner = text;
  } else if (frame) {
    if (lane == kBulkLane && frame.size() >= transport::kSharedSlotBytes) {
      std::shared_ptr<transport::SharedSender> memory;
      {
        const std::lock_guard lock(to->mutex);
        memory = to->shared_out;
      }
      if (memory) {
        if (const auto reference = memory->place(frame.bytes())) set_reference(head, *reference);
      }
    }
    if (!has_reference(head)) {
      auto owner = std::make_shared<messages::Frame>(std::move(frame));
      out.body = owner->bytes();
      out.owner = owner;
    }
  }
  out.head = head;
  if (Status sent = stream->send(std::move(out)); !sent.ok()) log::error("to {}: {}", node, sent.error().message);
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

// ---- receiving ----

void NodeNetwork::Impl::greet(std::unique_ptr<Link> link) {
  const Identity identity = link->peer();
  if (identity.has_role(transport::kJoinRole)) {
    if (options.on_join) return options.on_join(std::move(link));
    return refuse(Error{Code::kInvalidArgument, "TRP-S711 the bearer of a token came to a node that is not the chief"});
  }
  auto hello = transport::receive_hello(*link, kHelloTimeout);
  if (!hello.ok()) return log::debug("{} said no hello: {}", identity.node, hello.error().message);
  if (hello->name == kOperatorService) return serve_operator(std::move(link));
  std::size_t lane = 0;
  while (lane < kLanes && hello->name != kLaneNames[lane]) ++lane;
  if (lane == kLanes || identity.has_role(kOperatorRole)) {  // an operator is no node and has no lanes
    return refuse(
        Error{Code::kInvalidArgument, fmt::format("TRP-S711 {} (roles {}) may not open the stream {}", identity.node,
                                                  fmt::join(identity.roles, "+"), hello->name)});
  }
  const auto from = peer(identity.node);
  std::shared_ptr<transport::StreamReceiver> receiver;
  {
    const std::lock_guard lock(from->mutex);
    receiver = from->in[lane];
  }
  if (receiver == nullptr) {
    transport::StreamReceiverOptions stream;
    stream.peer = identity.node;
    stream.pool = receive_pool;
    stream.on_message = [this, weak = std::weak_ptr<PeerNode>(from), identity](transport::StreamMessage message) {
      if (const auto sender = weak.lock()) receive(sender, identity, std::move(message));
    };
    auto made = transport::StreamReceiver::make(std::move(stream));
    if (!made.ok()) return log::error("lane from {}: {}", identity.node, made.error().message);
    receiver = std::move(made).value();
    const std::lock_guard lock(from->mutex);
    from->in[lane] = receiver;
  }
  receiver->attach(std::move(link), std::move(hello).value());
}

void NodeNetwork::Impl::serve_operator(std::unique_ptr<Link> link) {
  const Identity identity = link->peer();
  auto received = link->receive(kHelloTimeout);
  if (!received.ok()) return log::debug("operator: {}", received.error().message);
  auto frame = frames.copy(received->payload);
  if (!frame.ok()) return refuse(frame.error());
  auto question = messages::read_control(*frame);
  if (!question.ok()) return refuse(Error{Code::kInvalidArgument, "TRP-S705 operator: " + question.error().message});
  const bool allowed = identity.has_role(kOperatorRole);
  if (Status may = may_send(*options.topology, identity, leads(), *question); !allowed || !may.ok()) {
    return refuse(may.ok() ? Error{Code::kInvalidArgument, "TRP-S711 node " + identity.node + " is no operator"}
                           : may.error());
  }
  {
    const std::lock_guard lock(mutex);
    if (operators.size() >= kOperatorsMax) operators.pop_front();
    operators.push_back(std::move(link));
  }
  events.received(kOperator, std::move(question).value());
}

void NodeNetwork::Impl::receive(const std::shared_ptr<PeerNode>& from, const Identity& identity,
                                transport::StreamMessage message) {
  if (is_offer(message.head)) {
    auto offer = unpack_offer(message.body);
    auto connected = offer.ok() ? transport::SharedReceiver::connect(*offer)
                                : Result<std::unique_ptr<transport::SharedReceiver>>(offer.error());
    if (!connected.ok()) return log::debug("shared memory of {}: {}", from->name, connected.error().message);
    const std::lock_guard lock(from->mutex);
    from->shared_in = std::move(connected).value();
    return;
  }
  if (has_reference(message.head)) {
    std::shared_ptr<transport::SharedReceiver> memory;
    {
      const std::lock_guard lock(from->mutex);
      memory = from->shared_in;
    }
    if (memory == nullptr)
      return refuse(Error{Code::kCorrupt, "TRP-S714 a reference to memory that was never offered"});
    auto opened = memory->open(reference_of(message.head));
    if (!opened.ok())
      return refuse(Error{Code::kCorrupt, "TRP-S714 from " + from->name + ": " + opened.error().message});
    message.body = opened->bytes;
    message.owner = std::move(opened->owner);
  }
  auto unpacked = unpack_message(message);
  if (!unpacked.ok()) {
    return refuse(
        Error{unpacked.error().code, fmt::format("TRP-S705 from {}: {}", from->name, unpacked.error().message)});
  }
  deliver(from, identity, std::move(unpacked).value());
}

void NodeNetwork::Impl::deliver(const std::shared_ptr<PeerNode>& from, const Identity& identity,
                                RemoteMessage message) {
  if (Status may = may_send(*options.topology, identity, leads(), message); !may.ok()) return refuse(may.error());
  if (const auto* control = std::get_if<Control>(&message);
      control != nullptr && leads() && control->kind == ControlKind::kJoin && !control->nodes.empty()) {
    // Where the chief answers a node is what the node says; that it is this node who listens there, its certificate.
    const transport::Address address{control->nodes.front().host, control->nodes.front().port};
    std::array<std::shared_ptr<transport::StreamSender>, kLanes> old;
    {
      const std::lock_guard lock(from->mutex);
      if (from->control != address || from->birth != control->birth) {
        old[kControlLane] = std::exchange(from->out[kControlLane], nullptr);
        from->control = address;
        from->birth = control->birth;
      }
    }
    drop(std::move(old));
  }
  events.received(from->name, std::move(message));
}

// ---- the operator's side ----

Result<Control> ask_chief(const transport::Address& chief, const Identity& self,
                          const transport::Credentials& credentials, const Control& question, Duration timeout) {
  const SteadyClock clock;
  const Duration deadline = clock.now() + timeout;
  TROUPE_ASSIGN(const int socket, transport::dial(chief, timeout));
  transport::LinkOptions options;
  options.side = transport::Side::kDial;
  options.handshake_timeout = deadline - clock.now();
  options.admit = [&](const Identity& peer) -> Status {
    if (peer.run == self.run && peer.has_role(transport::kChiefRole)) return {};
    return Error{Code::kInvalidArgument, fmt::format("node {} of run {} answers at {}, expected the chief of run {}",
                                                     peer.node, peer.run, transport::to_string(chief), self.run)};
  };
  TROUPE_ASSIGN(const auto link, Link::open(socket, credentials, options));
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
