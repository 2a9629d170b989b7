#include <troupe/actors/ports.hpp>

#include <algorithm>
#include <memory>

#include <troupe/core/check.hpp>

namespace troupe::actors {

// ---- InletPort
// -------------------------------------------------------------------------------------------------------

template <typename Predicate>
std::optional<std::size_t> InletPort::find(Predicate of) const {
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < queue_.size(); ++i) {
    const EdgeId& edge = queue_[i].message.edge;
    if (!found ? of(edge) : edge == queue_[*found].message.edge) found = i;
    if (found && spec_.kind != ChannelKind::kLatest) break;
  }
  return found;
}

Frame InletPort::take_at(std::size_t position) {
  const auto at = queue_.begin() + static_cast<std::ptrdiff_t>(position);
  Frame frame = std::move(at->message.frame);
  if (spec_.kind == ChannelKind::kLatest) {
    const EdgeId edge = at->message.edge;
    std::erase_if(queue_, [&](const Waiting& waiting) {
      if (!(waiting.message.edge == edge)) return false;
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
  return position ? &queue_[*position].message.frame : nullptr;
}

Frame InletPort::take(std::size_t producer) {
  const auto position = find([&](const EdgeId& edge) { return edge.producer == producer; });
  TROUPE_CHECK(position, "take from the inlet {}: nothing of producer {} waits", spec_.name, producer);
  return take_at(*position);
}

void InletPort::give_back(const Waiting& waiting) {
  if (!waiting.credit_owed) return;
  for (const Peer& producer : producers_) {
    if (producer.edge == waiting.message.edge) return sender_.credit(producer.actor, producer.edge);
  }
}

bool InletPort::takes(const EdgeId& edge) const {
  return std::any_of(producers_.begin(), producers_.end(), [&](const Peer& peer) { return peer.edge == edge; });
}

void InletPort::rewire(const EdgeId& edge, const caf::actor& actor) {
  for (Peer& producer : producers_) {
    if (!(producer.edge == edge)) continue;
    producer.actor = actor;
    for (Waiting& waiting : queue_) {
      if (waiting.message.edge == edge) waiting.credit_owed = false;
    }
  }
}

void InletPort::receive(FrameMessage message) {
  ++counts_.frames;
  counts_.bytes += static_cast<std::int64_t>(message.frame.bytes().size());
  queue_.push_back({std::move(message)});
}

// ---- OutletPort
// ------------------------------------------------------------------------------------------------------

bool OutletPort::ready() const {
  return spec_.kind == ChannelKind::kLatest ||
         std::any_of(consumers_.begin(), consumers_.end(), [](const Consumer& c) { return c.credits > 0; });
}

bool OutletPort::ready(std::size_t consumer) const { return consumers_.at(consumer).credits > 0; }

void OutletPort::send(Frame frame) {
  count(frame);
  if (spec_.kind == ChannelKind::kLatest) {
    for (Consumer& consumer : consumers_) offer(consumer, frame);
    return;
  }
  for (std::size_t tried = 0; tried < consumers_.size(); ++tried) {
    Consumer& consumer = consumers_[turn_];
    turn_ = (turn_ + 1) % consumers_.size();
    if (consumer.credits > 0) return transmit(consumer, std::move(frame));
  }
  TROUPE_CHECK(false, "send to the outlet {} without credit", spec_.name);
}

void OutletPort::send_to(std::size_t consumer, Frame frame) {
  count(frame);
  Consumer& receiver = consumers_.at(consumer);
  if (spec_.kind == ChannelKind::kLatest) return offer(receiver, std::move(frame));
  TROUPE_CHECK(receiver.credits > 0, "send to consumer {} of the outlet {} without credit", consumer, spec_.name);
  transmit(receiver, std::move(frame));
}

void OutletPort::count(const Frame& frame) {
  ++counts_.frames;
  counts_.bytes += static_cast<std::int64_t>(frame.bytes().size());
}

void OutletPort::offer(Consumer& consumer, Frame frame) {
  consumer.newest = std::move(frame);
  if (consumer.credits > 0) {
    transmit(consumer, *consumer.newest);
  } else {
    consumer.behind = true;
  }
}

void OutletPort::transmit(Consumer& consumer, Frame frame) {
  --consumer.credits;
  consumer.behind = false;
  sender_.frame(consumer.peer.actor, FrameMessage{consumer.peer.edge, std::move(frame)});
}

void OutletPort::add_consumer(Peer peer, std::int64_t capacity, std::int64_t used) {
  if (spec_.kind == ChannelKind::kLatest) capacity = 1;
  consumers_.push_back({std::move(peer), capacity, std::max<std::int64_t>(capacity - used, 0), std::nullopt, false});
}

void OutletPort::rewire(const EdgeId& edge, const caf::actor& actor) {
  for (Consumer& consumer : consumers_) {
    if (!(consumer.peer.edge == edge)) continue;
    consumer.peer.actor = actor;
    consumer.credits = consumer.capacity;
    if (consumer.newest) transmit(consumer, *consumer.newest);
  }
}

void OutletPort::credit(const EdgeId& edge, const caf::actor_addr& from) {
  for (Consumer& consumer : consumers_) {
    // A credit that a dead incarnation sent must not count for its successor, which started with all of them.
    if (!(consumer.peer.edge == edge) || consumer.peer.actor.address() != from) continue;
    ++consumer.credits;
    TROUPE_CHECK(consumer.credits <= consumer.capacity, "outlet {}: more credits than capacity", spec_.name);
    if (consumer.behind) transmit(consumer, *consumer.newest);
  }
}

// ---- CallerPort
// ------------------------------------------------------------------------------------------------------

void CallerPort::call(Frame request, Duration deadline, Reply reply) {
  TROUPE_CHECK(ready(), "call on {} beyond its capacity of {}", spec_.name, capacity_);
  const Peer& server = servers_[turn_];
  turn_ = (turn_ + 1) % servers_.size();
  const std::uint64_t ticket = next_ticket_++;
  const Duration due = sender_.now() + deadline;
  open_.emplace(ticket, Open{std::move(reply), due});
  deadlines_.emplace(due, ticket);
  sender_.expire_at(due);
  sender_.call(server.actor, CallMessage{server.edge, ticket, std::move(request)});
}

void CallerPort::add_server(Peer peer, std::int64_t capacity) {
  servers_.push_back(std::move(peer));
  capacity_ = capacity;
}

void CallerPort::rewire(const EdgeId& edge, const caf::actor& actor) {
  for (Peer& server : servers_) {
    if (server.edge == edge) server.actor = actor;
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

// ---- ServerPort
// ------------------------------------------------------------------------------------------------------

void ServerPort::receive(CallMessage message, caf::actor from) {
  if (static_cast<std::int64_t>(queue_.size()) >= limit_) {
    sender_.answer(from, AnswerMessage{message.edge,
                                       message.ticket,
                                       Error{Code::kUnavailable, "call on " + spec_.name + ": the queue is full"},
                                       {}});
    return;
  }
  queue_.push_back({std::move(message), std::move(from)});
}

std::pair<Frame, std::function<void(Frame)>> ServerPort::take() {
  TROUPE_CHECK(!queue_.empty(), "take from the empty server {}", spec_.name);
  Waiting oldest = std::move(queue_.front());
  queue_.pop_front();
  // The answer may come much later, from another step; whoever drops it unused answers with kCancelled.
  struct Pending {
    const PortSender& sender;
    caf::actor to;
    EdgeId edge;
    std::uint64_t ticket;
    bool answered = false;
    Pending(const PortSender& s, caf::actor a, EdgeId e, std::uint64_t t)
        : sender(s), to(std::move(a)), edge(e), ticket(t) {}
    Pending(const Pending&) = delete;
    Pending& operator=(const Pending&) = delete;
    ~Pending() {
      if (!answered) {
        sender.answer(to, AnswerMessage{edge, ticket, Error{Code::kCancelled, "the server dropped the call"}, {}});
      }
    }
  };
  auto pending = std::make_shared<Pending>(sender_, std::move(oldest.from), oldest.message.edge, oldest.message.ticket);
  auto answer = [pending](Frame frame) {
    TROUPE_CHECK(!pending->answered, "a call was answered twice");
    pending->answered = true;
    pending->sender.answer(pending->to, AnswerMessage{pending->edge, pending->ticket, std::nullopt, std::move(frame)});
  };
  return {std::move(oldest.message.frame), std::move(answer)};
}

}  // namespace troupe::actors
