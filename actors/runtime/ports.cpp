#include <troupe/actors/runtime/ports.hpp>

#include <algorithm>
#include <memory>

#include <troupe/core/check.hpp>

namespace troupe::actors {
namespace {

/// Calls that wait for their callers to be wired; beyond, the oldest is dropped and its caller's deadline answers.
constexpr std::size_t kEarlyCalls = 256;

/// Puts `peer` in the place of its edge's earlier incarnation, or behind the others. False when it is none of a new
/// incarnation: whoever repeats an order changes nothing.
bool replace(std::vector<Peer>& peers, Peer peer) {
  for (Peer& known : peers) {
    if (!(known.edge == peer.edge)) continue;
    if (known.incarnation >= peer.incarnation) return false;
    known = std::move(peer);
    return true;
  }
  peers.push_back(std::move(peer));
  return true;
}

void remove(std::vector<Peer>& peers, const EdgeId& edge, std::uint32_t incarnation) {
  std::erase_if(peers, [&](const Peer& peer) { return peer.edge == edge && peer.incarnation <= incarnation; });
}

bool has(const std::vector<Peer>& peers, const EdgeId& edge, std::uint32_t incarnation) {
  return std::any_of(peers.begin(), peers.end(),
                     [&](const Peer& peer) { return peer.edge == edge && peer.incarnation == incarnation; });
}

}  // namespace

// ---- InletPort ----

template <typename Predicate>
std::optional<std::size_t> InletPort::find(Predicate of) const {
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < queue_.size(); ++i) {
    const EdgeId& edge = queue_[i].edge;
    if (!found ? of(edge) : edge == queue_[*found].edge) found = i;
    if (found && spec_.kind != ChannelKind::kLatest) break;
  }
  return found;
}

Frame InletPort::take_at(std::size_t position) {
  const auto at = queue_.begin() + static_cast<std::ptrdiff_t>(position);
  Frame frame = std::move(at->frame);
  last_taken_ = at->edge;
  if (spec_.kind == ChannelKind::kLatest) {
    const EdgeId edge = at->edge;
    std::erase_if(queue_, [&](const Waiting& waiting) {
      if (!(waiting.edge == edge)) return false;
      give_back(waiting);
      return true;
    });
  } else {
    const Waiting taken = std::move(*at);
    queue_.erase(at);
    give_back(taken);
  }
  return frame;
}

Frame InletPort::take() {
  TROUPE_CHECK(!queue_.empty(), "take from the empty inlet {}", spec_.name);
  return take_at(*find([](const EdgeId&) { return true; }));
}

const Frame* InletPort::peek(std::size_t producer) const {
  const auto position = find([&](const EdgeId& edge) { return edge.producer == producer; });
  return position ? &queue_[*position].frame : nullptr;
}

std::size_t InletPort::producers() const {
  std::size_t producers = 0;
  for (const Waiting& waiting : queue_) producers = std::max<std::size_t>(producers, waiting.edge.producer + 1);
  return producers;
}

Frame InletPort::take(std::size_t producer) {
  const auto position = find([&](const EdgeId& edge) { return edge.producer == producer; });
  TROUPE_CHECK(position, "take from the inlet {}: nothing of producer {} waits", spec_.name, producer);
  return take_at(*position);
}

Frame InletPort::take_held() {
  TROUPE_CHECK(!queue_.empty() && spec_.kind == ChannelKind::kStream, "take_held from the inlet {}", spec_.name);
  Waiting oldest = std::move(queue_.front());
  queue_.pop_front();
  Frame frame = std::move(oldest.frame);
  last_taken_ = oldest.edge;
  held_.push_back(std::move(oldest));
  return frame;
}

void InletPort::release_held(std::size_t count) {
  TROUPE_CHECK(count <= held_.size(), "release of {} frames at the inlet {}, which holds {}", count, spec_.name,
               held_.size());
  for (; count > 0; --count) {
    give_back(held_.front());
    held_.pop_front();
  }
}

const Peer* InletPort::producer(const EdgeId& edge) const {
  for (const Peer& peer : producers_) {
    if (peer.edge == edge) return &peer;
  }
  return nullptr;
}

std::pair<EdgeId, std::string> InletPort::last_sender() const {
  const Peer* const peer = producer(last_taken_);
  return {last_taken_, peer == nullptr ? "" : peer->address.node};
}

void InletPort::give_back(const Waiting& waiting) {
  if (!waiting.owed) return;
  const Peer* const peer = producer(waiting.edge);
  if (peer == nullptr || peer->incarnation != waiting.owed->producer_incarnation) return;
  sender_.credit(peer->address, CreditMessage{*waiting.owed, 1, waiting.foreign ? 0U : 1U});
}

void InletPort::wire(Peer peer, std::int64_t capacity) {
  const Route route{peer.edge, peer.incarnation, sender_.incarnation};
  const Address address = peer.address;
  if (!replace(producers_, std::move(peer))) return;
  if (spec_.kind == ChannelKind::kLatest) capacity = 1;
  // What is here of the producer, from a checkpoint or from an earlier incarnation, takes up credits of the new one; it
  // gets them as these frames are taken.
  for (auto* frames : {&held_, &queue_}) {
    for (Waiting& waiting : *frames) {
      if (!(waiting.edge == route.edge)) continue;
      waiting.foreign = true;
      waiting.owed.reset();
      if (capacity == 0) continue;  // more than fit: the channel was wider once
      waiting.owed = route;
      --capacity;
    }
  }
  if (capacity > 0) sender_.credit(address, CreditMessage{route, static_cast<std::uint32_t>(capacity), 0});
}

void InletPort::unwire(const EdgeId& edge, std::uint32_t incarnation) { remove(producers_, edge, incarnation); }

bool InletPort::receive(FrameMessage message) {
  const Route& route = message.route;
  if (route.consumer_incarnation != sender_.incarnation) return false;
  if (!has(producers_, route.edge, route.producer_incarnation)) return false;
  ++counts_.frames;
  counts_.bytes += static_cast<std::int64_t>(message.frame.bytes().size());
  queue_.push_back({route.edge, route, std::move(message.frame)});
  return true;
}

void InletPort::restore(const EdgeId& edge, Frame frame) {
  queue_.push_back({edge, std::nullopt, std::move(frame), true});
}

// ---- OutletPort ----

bool OutletPort::ready() const {
  return spec_.kind == ChannelKind::kLatest ||
         std::any_of(consumers_.begin(), consumers_.end(), [](const Consumer& c) { return c.wired && c.credits > 0; });
}

std::int64_t OutletPort::under_way() const {
  std::int64_t frames = 0;
  for (const Consumer& consumer : consumers_) frames += static_cast<std::int64_t>(consumer.kept.size());
  return frames;
}

void OutletPort::expect(const EdgeId& edge) { consumers_.emplace_back().peer.edge = edge; }

void OutletPort::send(Frame frame) {
  count(frame);
  if (spec_.kind == ChannelKind::kLatest) {
    for (Consumer& consumer : consumers_) offer(consumer, frame);
    newest_ = std::move(frame);
    return;
  }
  for (std::size_t tried = 0; tried < consumers_.size(); ++tried) {
    Consumer& consumer = consumers_[turn_];
    turn_ = (turn_ + 1) % consumers_.size();
    if (!consumer.wired || consumer.credits == 0) continue;
    consumer.kept.push_back(frame);
    return transmit(consumer, frame);
  }
  TROUPE_CHECK(false, "send to the outlet {} without credit", spec_.name);
}

void OutletPort::send_to(std::size_t consumer, Frame frame) {
  count(frame);
  Consumer& receiver = consumers_.at(consumer);
  if (spec_.kind == ChannelKind::kLatest) return offer(receiver, std::move(frame));
  TROUPE_CHECK(ready(consumer), "send to consumer {} of the outlet {} without credit", consumer, spec_.name);
  receiver.kept.push_back(frame);
  transmit(receiver, frame);
}

void OutletPort::count(const Frame& frame) {
  ++counts_.frames;
  counts_.bytes += static_cast<std::int64_t>(frame.bytes().size());
}

void OutletPort::offer(Consumer& consumer, Frame frame) {
  consumer.newest = std::move(frame);
  consumer.behind = true;
  catch_up(consumer);
}

void OutletPort::transmit(Consumer& consumer, const Frame& frame) {
  --consumer.credits;
  const Route route{consumer.peer.edge, sender_.incarnation, consumer.peer.incarnation};
  sender_.frame(consumer.peer.address, FrameMessage{route, frame});
}

void OutletPort::catch_up(Consumer& consumer) {
  if (!consumer.wired) return;
  if (spec_.kind == ChannelKind::kLatest) {
    if (!consumer.behind || consumer.credits == 0) return;
    consumer.behind = false;
    return transmit(consumer, *consumer.newest);
  }
  while (consumer.resend > 0 && consumer.credits > 0) {
    transmit(consumer, consumer.kept[consumer.kept.size() - consumer.resend]);
    --consumer.resend;
  }
}

OutletPort::Consumer* OutletPort::find(const EdgeId& edge) {
  for (Consumer& consumer : consumers_) {
    if (consumer.peer.edge == edge) return &consumer;
  }
  return nullptr;
}

void OutletPort::wire(Peer peer) {
  Consumer* consumer = find(peer.edge);
  if (consumer == nullptr) {
    consumer = &consumers_.emplace_back();
    consumer->newest = newest_;
  } else if (consumer->met && consumer->peer.incarnation >= peer.incarnation) {
    return;
  }
  consumer->peer = std::move(peer);
  consumer->met = true;
  consumer->wired = true;
  consumer->credits = 0;
  consumer->resend = consumer->kept.size();
  consumer->behind = consumer->newest.has_value();
  std::vector<CreditMessage> grants;
  std::swap(grants, early_);
  for (const CreditMessage& grant : grants) credit(grant);
}

void OutletPort::unwire(const EdgeId& edge, std::uint32_t incarnation) {
  Consumer* const consumer = find(edge);
  if (consumer != nullptr && consumer->peer.incarnation <= incarnation) consumer->wired = false;
}

bool OutletPort::settled() const {
  return std::none_of(consumers_.begin(), consumers_.end(), [](const Consumer& c) { return c.wired && c.resend > 0; });
}

void OutletPort::credit(const CreditMessage& message) {
  const Route& route = message.route;
  if (route.producer_incarnation != sender_.incarnation) return;
  Consumer* const consumer = find(route.edge);
  if (consumer == nullptr || !consumer->met || consumer->peer.incarnation < route.consumer_incarnation) {
    // Of one incarnation of a consumer there is at most one for each frame that fits into its inlet: before it is sent
    // to it takes only what it was restored with.
    std::erase_if(early_, [&](const CreditMessage& early) {
      return early.route.edge == route.edge && early.route.consumer_incarnation < route.consumer_incarnation;
    });
    early_.push_back(message);
    return;
  }
  if (consumer->peer.incarnation != route.consumer_incarnation) return;
  consumer->credits += message.credits;
  const std::size_t sent = consumer->kept.size() - consumer->resend;
  const auto taken = static_cast<std::ptrdiff_t>(std::min<std::size_t>(sent, message.taken));
  consumer->kept.erase(consumer->kept.begin(), consumer->kept.begin() + taken);
  catch_up(*consumer);
}

// ---- CallerPort ----

void CallerPort::call(Frame request, Duration deadline, Reply reply) {
  TROUPE_CHECK(ready(), "call on {} beyond its capacity of {} or without a server", spec_.name, capacity_);
  turn_ %= servers_.size();
  start(servers_[turn_++], std::move(request), deadline, std::move(reply));
}

bool CallerPort::ready(std::size_t server) const {
  return ready() &&
         std::any_of(servers_.begin(), servers_.end(), [&](const Peer& p) { return p.edge.consumer == server; });
}

void CallerPort::call_to(std::size_t server, Frame request, Duration deadline, Reply reply) {
  TROUPE_CHECK(ready(server), "call on {} to server {}, which is not ready", spec_.name, server);
  const auto to =
      std::find_if(servers_.begin(), servers_.end(), [&](const Peer& peer) { return peer.edge.consumer == server; });
  start(*to, std::move(request), deadline, std::move(reply));
}

void CallerPort::start(const Peer& server, Frame request, Duration deadline, Reply reply) {
  const std::uint64_t ticket = next_ticket_++;
  const Duration due = sender_.now() + deadline;
  open_.emplace(ticket, Open{std::move(reply), due, server.edge, server.incarnation});
  deadlines_.emplace(due, ticket);
  sender_.expire_at(due);
  const Route route{server.edge, sender_.incarnation, server.incarnation};
  sender_.call(server.address, CallMessage{route, ticket, std::move(request)});
}

void CallerPort::wire(Peer peer, std::int64_t capacity) {
  replace(servers_, std::move(peer));
  capacity_ = capacity;
}

void CallerPort::unwire(const EdgeId& edge, std::uint32_t incarnation) {
  remove(servers_, edge, incarnation);
  std::vector<std::uint64_t> lost;  // in the order of the calls, so that virtual time repeats
  for (const auto& [ticket, open] : open_) {
    if (open.edge == edge && open.incarnation <= incarnation) lost.push_back(ticket);
  }
  std::sort(lost.begin(), lost.end());
  for (const std::uint64_t ticket : lost) {
    finish(ticket, Error{Code::kUnavailable, "call on " + spec_.name + ": the server went without an answer"});
  }
}

bool CallerPort::finish(std::uint64_t ticket, Result<Frame> result) {
  auto found = open_.find(ticket);
  if (found == open_.end()) return false;
  deadlines_.erase({found->second.deadline, ticket});
  Reply reply = std::move(found->second.reply);
  open_.erase(found);
  reply(std::move(result));
  return true;
}

bool CallerPort::answer(AnswerMessage message) {
  const Route& route = message.route;
  if (route.producer_incarnation != sender_.incarnation) return false;
  if (!has(servers_, route.edge, route.consumer_incarnation)) return false;
  if (message.error) return finish(message.ticket, *message.error);
  return finish(message.ticket, std::move(message.frame));
}

bool CallerPort::expire() {
  bool any = false;
  while (!deadlines_.empty() && deadlines_.begin()->first <= sender_.now()) {
    any |= finish(deadlines_.begin()->second,
                  Error{Code::kDeadlineExceeded, "call on " + spec_.name + ": no answer before its deadline"});
  }
  if (!deadlines_.empty()) sender_.expire_at(deadlines_.begin()->first);
  return any;
}

// ---- ServerPort ----

void ServerPort::wire(Peer peer, std::int64_t capacity) {
  replace(callers_, std::move(peer));
  capacity_ = capacity;
  std::deque<CallMessage> early;
  std::swap(early, early_);
  for (CallMessage& message : early) receive(std::move(message));
}

void ServerPort::unwire(const EdgeId& edge, std::uint32_t incarnation) { remove(callers_, edge, incarnation); }

bool ServerPort::receive(CallMessage message) {
  const Route& route = message.route;
  if (route.consumer_incarnation != sender_.incarnation) return false;
  const auto caller =
      std::find_if(callers_.begin(), callers_.end(), [&](const Peer& peer) { return peer.edge == route.edge; });
  if (caller == callers_.end() || caller->incarnation < route.producer_incarnation) {
    if (early_.size() == kEarlyCalls) early_.pop_front();
    early_.push_back(std::move(message));
    return false;
  }
  if (caller->incarnation != route.producer_incarnation) return false;
  const std::int64_t limit = capacity_ * static_cast<std::int64_t>(callers_.size());
  if (depth() >= limit) {
    Error full{Code::kUnavailable, "call on " + spec_.name + ": the queue is full"};
    sender_.answer(caller->address, AnswerMessage{route, message.ticket, std::move(full), {}});
    return true;
  }
  queue_.push_back({std::move(message), caller->address});
  return true;
}

std::pair<Frame, std::function<void(Frame)>> ServerPort::take() {
  TROUPE_CHECK(!queue_.empty(), "take from the empty server {}", spec_.name);
  Waiting oldest = std::move(queue_.front());
  queue_.pop_front();
  // The answer may come much later, from another step; whoever drops it unused answers with kCancelled.
  struct Pending {
    const PortSender& sender;
    Address to;
    Route route;
    std::uint64_t ticket;
    bool answered = false;
    Pending(const PortSender& s, Address a, Route r, std::uint64_t t)
        : sender(s), to(std::move(a)), route(r), ticket(t) {}
    Pending(const Pending&) = delete;
    Pending& operator=(const Pending&) = delete;
    ~Pending() {
      if (!answered) {
        sender.answer(to, AnswerMessage{route, ticket, Error{Code::kCancelled, "the server dropped the call"}, {}});
      }
    }
  };
  auto pending =
      std::make_shared<Pending>(sender_, std::move(oldest.from), oldest.message.route, oldest.message.ticket);
  auto answer = [pending](Frame frame) {
    TROUPE_CHECK(!pending->answered, "a call was answered twice");
    pending->answered = true;
    pending->sender.answer(pending->to, AnswerMessage{pending->route, pending->ticket, std::nullopt, std::move(frame)});
  };
  return {std::move(oldest.message.frame), std::move(answer)};
}

}  // namespace troupe::actors
