#include <troupe/actors/network/node_network.hpp>

#include <fmt/format.h>

#include <limits>
#include <set>
#include <utility>

#include <troupe/actors/network/detail/node_network_impl.hpp>
#include <troupe/actors/network/detail/wire_head.hpp>
#include <troupe/core/log.hpp>
#include <troupe/transport/dial.hpp>
#include <troupe/transport/join.hpp>

namespace troupe::actors {
namespace {

using messages::Control;
using messages::ControlKind;
using transport::Identity;
using transport::Link;

constexpr Duration kSayNoLaneEvery = std::chrono::seconds(30);
constexpr Duration kDialTimeout = std::chrono::seconds(3);
/// Lanes to be ended; beyond, an outgoing one is ended by whoever drops it.
constexpr std::size_t kTasksMax = 1024;
/// Frames that came back are let go of also when nobody needs another one.
constexpr Duration kTakeBackEvery = std::chrono::milliseconds(50);
/// Of who comes with a token or a question, to say it.
constexpr Duration kVisitorTimeout = std::chrono::seconds(2);

bool nothing_lent(const std::shared_ptr<transport::SharedSender>& sender) { return sender->stats().lent_bytes == 0; }

}  // namespace

// ---- making and ending ----

NodeNetwork::NodeNetwork(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
NodeNetwork::~NodeNetwork() { stop(); }

Result<std::unique_ptr<NodeNetwork>> NodeNetwork::make(NodeNetworkOptions options) {
  auto impl = std::make_unique<Impl>(std::move(options));
  if (auto memory = LendableMemory::make(); memory.ok()) {
    impl->memory = std::move(memory).value();
  } else {
    impl->note_memory(impl->options.self.node, memory.error().message);
  }
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
                                                     [this](std::unique_ptr<Link> link) { take(std::move(link)); }));
  return {};
}

const transport::Address& NodeNetwork::address() const { return impl_->listener->address(); }

std::shared_ptr<LendableMemory> NodeNetwork::frame_memory() const { return impl_->memory; }

void NodeNetwork::start(std::uint64_t birth, NetworkEvents events) {
  impl_->own_birth = birth;
  impl_->events = std::move(events);
  impl_->worker = std::thread([impl = impl_.get()] { impl->work(); });
  auto acceptor = transport::StreamAcceptor::make(
      {.on_hello = [impl = impl_.get()](std::unique_ptr<Link> link, transport::StreamHello hello) {
        impl->greet(std::move(link), std::move(hello));
      }});
  auto visitors = transport::StreamAcceptor::make(
      {.on_word = [impl = impl_.get()](std::unique_ptr<Link> link) { impl->serve(std::move(link)); },
       .timeout = kVisitorTimeout});
  std::vector<std::unique_ptr<Link>> early;
  if (acceptor.ok() && visitors.ok()) {
    const std::lock_guard lock(impl_->mutex);
    impl_->acceptor = std::move(acceptor).value();
    impl_->visitors = std::move(visitors).value();
    std::swap(early, impl_->early);
  } else {
    log::error("node {} cannot be reached: {}", impl_->options.self.node,
               acceptor.ok() ? visitors.error().message : acceptor.error().message);
  }
  for (auto& link : early) impl_->take(std::move(link));
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
  impl_->listener->stop();
  if (impl_->acceptor) impl_->acceptor->stop();
  if (impl_->visitors) impl_->visitors->stop();
  if (impl_->worker.joinable()) impl_->worker.join();
  const std::vector<std::shared_ptr<PeerNode>> peers = impl_->all_peers();
  for (const auto& peer : peers) {
    std::unique_lock lock(peer->mutex);
    peer->closed = true;
    const auto out = std::exchange(peer->out, {});
    const auto in = std::exchange(peer->in, {});
    lock.unlock();
    for (const auto& lane : out) {
      if (lane) lane->stop();
    }
    for (const auto& lane : in) {
      if (lane.receiver) lane.receiver->stop();
    }
  }
  // No thread of ours is left but those of lanes that were dropped and not ended yet: they end here.
  std::deque<std::function<void()>> tasks;
  {
    const std::lock_guard lock(impl_->mutex);
    std::swap(tasks, impl_->tasks);
  }
  for (const auto& task : tasks) task();
  {
    const std::lock_guard lock(impl_->mutex);  // somebody may be sending
    impl_->peers.clear();
  }
  impl_->operators.clear();
  impl_->early.clear();
  impl_->events = {};  // they hold actors, which could not end otherwise
}

void NodeNetwork::Impl::post(std::function<void()> task) {
  const std::lock_guard lock(mutex);
  tasks.push_back(std::move(task));
  changed.notify_all();
}

/// Ends a lane that is not in use any more, on the worker: it takes a moment. Null: nothing.
void NodeNetwork::Impl::drop(std::shared_ptr<transport::StreamSender> lane) {
  if (lane == nullptr) return;
  std::unique_lock lock(mutex);
  const bool full = tasks.size() >= kTasksMax;
  lock.unlock();
  full ? lane->stop() : post([lane = std::move(lane)] { lane->stop(); });
}

/// It may be the lane's own thread that calls, so the worker has to end it; a peer is shut out, or has a new
/// certificate, so rarely that the queue needs no bound for these.
void NodeNetwork::Impl::drop(std::shared_ptr<transport::StreamReceiver> lane) {
  if (lane != nullptr) post([lane = std::move(lane)] { lane->stop(); });
}

void NodeNetwork::Impl::work() {
  std::unique_lock lock(mutex);
  for (;;) {
    const auto there_is_work = [this] { return stopped || !tasks.empty(); };
    const bool work = changed.wait_for(lock, kTakeBackEvery, there_is_work);
    if (stopped) return;
    if (!work) {
      lock.unlock();
      if (memory != nullptr) memory->take_back();
      for (const auto& peer : all_peers()) {
        const std::lock_guard peers_lock(peer->mutex);
        std::erase_if(peer->former_out, nothing_lent);
      }
    } else {
      const std::function<void()> task = std::move(tasks.front());
      tasks.pop_front();
      lock.unlock();
      task();
    }
    lock.lock();
  }
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

std::uint64_t NodeNetwork::shared() const { return impl_->shared; }

void NodeNetwork::Impl::note_memory(const std::string& peer, const std::string& why) {
  {
    const std::lock_guard lock(mutex);
    std::string& known = without_memory[peer];
    if (known == why) return;
    known = why;
  }
  if (peer == options.self.node) {
    return log::warn("TRP-W180 large frames for nodes of this machine go over TLS, which is slower: {}", why);
  }
  if (why.empty()) return log::info("frames between nodes {} and {} go through shared memory", peer, options.self.node);
  log::warn("TRP-W180 large frames between nodes {} and {} go over TLS, which is slower: {}", peer, options.self.node,
            why);
}

std::vector<std::string> NodeNetwork::trouble() const {
  std::vector<std::string> lines;
  const std::lock_guard lock(impl_->mutex);
  for (const auto& [peer, why] : impl_->without_memory) {
    if (!why.empty()) lines.push_back(fmt::format("TRP-W180 large frames of node {} go over TLS: {}", peer, why));
  }
  return lines;
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

std::vector<std::shared_ptr<PeerNode>> NodeNetwork::Impl::all_peers() {
  const std::lock_guard lock(mutex);
  std::vector<std::shared_ptr<PeerNode>> all;
  for (const auto& [name, peer] : peers) all.push_back(peer);
  return all;
}

/// The lane to a peer, made when it is first needed. Null when nobody has said where the peer is.
std::shared_ptr<transport::StreamSender> NodeNetwork::Impl::sender(const std::shared_ptr<PeerNode>& to,
                                                                   std::size_t lane) {
  const std::lock_guard lock(to->mutex);
  if (to->closed) return nullptr;
  if (to->out[lane] != nullptr) return to->out[lane];
  transport::StreamSenderOptions stream;
  std::optional<transport::Address> where;
  if (lane == kControlLane) {
    where = to->control;
  } else if (to->known) {
    where = transport::Address{to->known->host, to->known->port};
    stream.to = to->known->birth;
  }
  if (!where) return nullptr;
  stream.name = kLaneNames[lane];
  stream.urgent = lane != kBulkLane;
  stream.seed = std::hash<std::string>()(options.self.node + to->name + stream.name);
  stream.connect = [this, address = *where, name = to->name](std::stop_token token) -> Result<std::unique_ptr<Link>> {
    auto admit = [&](const Identity& peer) -> Status {
      if (peer.run == options.self.run && peer.node == name) return {};
      return Error{Code::kInvalidArgument,
                   fmt::format("TRP-S710 node {} of run {} answers at {}, expected {} of run {}", peer.node, peer.run,
                               transport::to_string(address), name, options.self.run)};
    };
    return transport::dial_link(address, options.credentials, link_options(transport::Side::kDial, admit, token),
                                kDialTimeout);
  };
  const std::weak_ptr<PeerNode> weak = to;
  if (lane == kControlLane) {
    stream.forgets = true;  // who answers next may be another process, to which a join or an order of before is false
    const std::uint64_t birth = leads() ? to->birth : 0;
    stream.up = [this, name = to->name, birth](const transport::StreamUp&) { events.found(name, birth); };
    stream.down = [this, name = to->name, birth](const Error& reason) {
      const bool told = reason.message.starts_with("TRP-");
      told ? log::warn("{}", reason.message) : log::debug("control lane to {}: {}", name, reason.message);
      events.lost(name, birth);
      if (leads() || reason.code != Code::kCancelled) return;
      // The chief has another process by our name: it took us for dead, and we are to exit.
      Control fenced;
      fenced.kind = ControlKind::kRefuse;
      fenced.birth = own_birth;
      fenced.term = std::numeric_limits<std::uint64_t>::max();
      fenced.code = reason.code;
      fenced.text = reason.message;
      fenced.fenced = true;
      events.received(name, std::move(fenced));
    };
  } else if (lane == kBulkLane) {
    stream.up = [this, weak](const transport::StreamUp& up) {
      if (const auto to = weak.lock()) offer_memory(*to, up.new_receiver);
    };
    stream.down = [name = to->name](const Error& reason) { log::debug("bulk lane to {}: {}", name, reason.message); };
  }
  auto made = transport::StreamSender::make(std::move(stream));
  if (!made.ok()) {
    say_no_lane(*to, lane, made.error());
    return nullptr;
  }
  to->out[lane] = std::move(made).value();
  return to->out[lane];
}

/// Who wants it tries again at once, so this is said once in a while; with the peer's lock held.
void NodeNetwork::Impl::say_no_lane(PeerNode& of, std::size_t lane, const Error& why) const {
  const Duration now = clock.now();
  if (of.no_lane_said && now - *of.no_lane_said < kSayNoLaneEvery) return;
  of.no_lane_said = now;
  log::error("node {}: no {} lane between it and node {}: {}", options.self.node, kLaneNames[lane], of.name,
             why.message);
}

/// Tells the process at the other end where our shared memory is; if it cannot use it, all goes over the link.
void NodeNetwork::Impl::offer_memory(PeerNode& to, bool new_receiver) {
  {
    const std::lock_guard lock(to.mutex);
    if (to.shared_out != nullptr && !new_receiver) return;
  }
  if (memory == nullptr) return;
  auto made = transport::SharedSender::make({.memory = memory});
  if (!made.ok()) return note_memory(to.name, made.error().message);
  std::shared_ptr<transport::SharedSender> sender = std::move(made).value();
  auto body = std::make_shared<std::string>(pack_offer(sender->offer()));
  transport::StreamMessage message;
  message.head = offer_head();
  message.body = std::as_bytes(std::span(*body));
  message.owner = body;
  std::shared_ptr<transport::StreamSender> bulk;
  {
    const std::lock_guard lock(to.mutex);
    retire_memory(to);
    to.shared_out = std::move(sender);
    bulk = to.out[kBulkLane];
  }
  if (bulk) (void)bulk->send(std::move(message));
}

/// Lends nothing more to the peer as it was; what it has it may still read. With the peer's lock held.
void NodeNetwork::Impl::retire_memory(PeerNode& to) {
  if (to.shared_out != nullptr) to.former_out.push_back(std::exchange(to.shared_out, nullptr));
}

/// Where a peer is from now on; nullopt: it has gone.
void NodeNetwork::Impl::learn(PeerNode& peer, const std::optional<messages::ControlNode>& where) {
  if (where && where->port == 0) return;
  std::array<std::shared_ptr<transport::StreamSender>, kLanes> old;
  {
    const std::lock_guard lock(peer.mutex);
    if (peer.known == where) return;
    // Another process, or none: what waits for the one before means nothing to it.
    for (const std::size_t lane : {kUrgentLane, kBulkLane, kGroupLane}) {
      old[lane] = std::exchange(peer.out[lane], nullptr);
    }
    retire_memory(peer);
    peer.known = where;
  }
  for (auto& lane : old) drop(std::move(lane));
}

void NodeNetwork::know(const std::vector<messages::ControlNode>& nodes) {
  std::set<std::string> listed;
  for (const messages::ControlNode& node : nodes) listed.insert(node.name);
  std::vector<std::string> gone;
  for (const auto& peer : impl_->all_peers()) {
    if (!listed.contains(peer->name)) gone.push_back(peer->name);
  }
  know_more(nodes, gone);
}

void NodeNetwork::know_more(const std::vector<messages::ControlNode>& nodes, const std::vector<std::string>& gone) {
  for (const messages::ControlNode& node : nodes) {
    if (node.name != impl_->options.self.node) impl_->learn(*impl_->peer(node.name), node);
  }
  for (const std::string& name : gone) impl_->learn(*impl_->peer(name), std::nullopt);
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
  if (auto* group = std::get_if<GroupMessage>(&message)) out.lent = std::move(group->lent);
  if (!error_text.empty()) {
    auto text = std::make_shared<std::string>(std::move(error_text));
    out.body = std::as_bytes(std::span(*text));
    out.owner = text;
  } else if (frame) {
    auto owner = std::make_shared<messages::Frame>(std::move(frame));
    out.body = owner->bytes();
    out.owner = owner;
  }
  if (lane == kBulkLane && out.body.size() >= LendableMemory::kLeastBlock) {
    std::shared_ptr<transport::SharedSender> memory;
    {
      const std::lock_guard lock(to->mutex);
      memory = to->shared_out;
    }
    const auto reference = memory ? memory->lend(out.body, out.owner) : std::nullopt;
    if (reference) {
      set_reference(head, *reference);
      out.body = {};
      out.owner = nullptr;
      ++impl_->shared;
    }
  }
  out.head = head;
  if (Status sent = stream->send(std::move(out)); !sent.ok()) log::error("to {}: {}", node, sent.error().message);
}

}  // namespace troupe::actors
