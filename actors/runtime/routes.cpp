#include <troupe/actors/runtime/routes.hpp>

#include <mutex>

namespace troupe::actors {
namespace {

/// The edge that a message is about, and whether it comes from its producer. None of a marker or control.
std::optional<std::pair<EdgeId, bool>> side_of(const RemoteMessage& message) {
  if (const auto* frame = std::get_if<FrameMessage>(&message)) return std::pair(frame->route.edge, true);
  if (const auto* credit = std::get_if<CreditMessage>(&message)) return std::pair(credit->route.edge, false);
  if (const auto* call = std::get_if<CallMessage>(&message)) return std::pair(call->route.edge, true);
  if (const auto* answer = std::get_if<AnswerMessage>(&message)) return std::pair(answer->route.edge, false);
  return std::nullopt;
}

}  // namespace

void Routes::add(const std::string& role, std::uint32_t index, std::uint32_t number, caf::actor actor) {
  const std::unique_lock lock(mutex_);
  instances_[{role, index}] = std::move(actor);
  numbers_[number] = {role, index};
}

void Routes::remove(const std::string& role, std::uint32_t index) {
  const std::unique_lock lock(mutex_);
  instances_.erase({role, index});
  std::erase_if(numbers_, [&](const auto& entry) { return entry.second == Key{role, index}; });
}

void Routes::expect(const EdgeId& edge, bool from_producer, const std::string& node) {
  const std::unique_lock lock(mutex_);
  const Side side{edge, from_producer};
  nodes_[side] = node;
  const auto early = early_.find(node);
  if (early == early_.end()) return;
  std::deque<RemoteMessage> others;
  for (RemoteMessage& message : early->second) {
    if (side_of(message) != side) {
      others.push_back(std::move(message));
    } else if (!hand_over(std::move(message))) {
      ++refused_;
    }
  }
  early->second = std::move(others);
}

void Routes::clear() {
  const std::unique_lock lock(mutex_);
  instances_.clear();
  numbers_.clear();
  nodes_.clear();
  early_.clear();
}

caf::actor Routes::target(const EdgeId& edge, bool to_consumer, bool request) const {
  Key key;
  if (edge.channel == kReportChannel) {
    if (request || !topology_.reports) return {};
    if (to_consumer) {
      key = {topology_.reports->role, 0};
    } else {
      const auto own = numbers_.find(edge.producer);
      if (own == numbers_.end()) return {};
      key = own->second;
    }
  } else {
    if (edge.channel >= topology_.channels.size()) return {};
    const ChannelSpec& channel = topology_.channels[edge.channel];
    const RoleSpec* const role = topology_.find(channel.to_role);
    for (const Port& port : role->inlets) {
      if (port.name == channel.to_port && (port.kind == ChannelKind::kRequest) != request) return {};
    }
    key = to_consumer ? Key{channel.to_role, edge.consumer} : Key{channel.from_role, edge.producer};
  }
  const auto found = instances_.find(key);
  return found == instances_.end() ? caf::actor() : found->second;
}

bool Routes::hand_over(RemoteMessage message) const {
  const auto side = side_of(message);
  const bool request = std::holds_alternative<CallMessage>(message) || std::holds_alternative<AnswerMessage>(message);
  const caf::actor to = target(side->first, side->second, request);
  if (!to) return false;
  if (auto* frame = std::get_if<FrameMessage>(&message)) {
    caf::anon_send(to, frame_atom::value, std::move(*frame));
  } else if (auto* credit = std::get_if<CreditMessage>(&message)) {
    caf::anon_send(to, credit_atom::value, *credit);
  } else if (auto* call = std::get_if<CallMessage>(&message)) {
    caf::anon_send(to, call_atom::value, std::move(*call));
  } else if (auto* answer = std::get_if<AnswerMessage>(&message)) {
    caf::anon_send(to, answer_atom::value, std::move(*answer));
  }
  return true;
}

bool Routes::deliver(const std::string& from, RemoteMessage message) {
  const auto side = side_of(message);
  const bool may_wait = std::holds_alternative<CreditMessage>(message) || std::holds_alternative<CallMessage>(message);
  const auto known = [&] {
    const auto sender = side ? nodes_.find(*side) : nodes_.end();
    return sender != nodes_.end() && sender->second == from;
  };
  {
    const std::shared_lock lock(mutex_);
    const bool expected = known();
    if (expected && hand_over(std::move(message))) return true;
    if (expected || !may_wait) {
      ++refused_;
      return false;
    }
  }
  const std::unique_lock lock(mutex_);
  if (known()) return hand_over(std::move(message));  // the chief's word has come since
  std::deque<RemoteMessage>& early = early_[from];
  if (early.size() == kEarlyMax) {
    early.pop_front();
    ++refused_;
  }
  early.push_back(std::move(message));
  return false;
}

}  // namespace troupe::actors
