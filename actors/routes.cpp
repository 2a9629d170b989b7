#include <troupe/actors/routes.hpp>

#include <mutex>

namespace troupe::actors {

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
  nodes_[{edge, from_producer}] = node;
}

void Routes::clear() {
  const std::unique_lock lock(mutex_);
  instances_.clear();
  numbers_.clear();
  nodes_.clear();
}

caf::actor Routes::target(const std::string& from, const EdgeId& edge, bool to_consumer, bool request) const {
  const std::shared_lock lock(mutex_);
  const auto sender = nodes_.find({edge, to_consumer});
  if (sender == nodes_.end() || sender->second != from) return {};
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

bool Routes::deliver(const std::string& from, RemoteMessage message) {
  caf::actor to;
  if (auto* frame = std::get_if<FrameMessage>(&message)) {
    to = target(from, frame->route.edge, true, false);
    if (to) caf::anon_send(to, frame_atom::value, std::move(*frame));
  } else if (auto* credit = std::get_if<CreditMessage>(&message)) {
    to = target(from, credit->route.edge, false, false);
    if (to) caf::anon_send(to, credit_atom::value, *credit);
  } else if (auto* call = std::get_if<CallMessage>(&message)) {
    to = target(from, call->route.edge, true, true);
    if (to) caf::anon_send(to, call_atom::value, std::move(*call));
  } else if (auto* answer = std::get_if<AnswerMessage>(&message)) {
    to = target(from, answer->route.edge, false, true);
    if (to) caf::anon_send(to, answer_atom::value, std::move(*answer));
  }
  if (!to) ++refused_;
  return static_cast<bool>(to);
}

}  // namespace troupe::actors
