#include <troupe/actors/control/groups.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include <troupe/collectives/delivery.hpp>
#include <troupe/collectives/group_communicator.hpp>
#include <troupe/core/log.hpp>

namespace troupe::actors {

/// One instance here: its way to the others, and its seat.
class Groups::Rank final : public collectives::Peers {
 public:
  Rank(Groups& groups, Group& group, std::uint32_t index) : groups_(groups), group_(group), index_(index) {}

  Status send(std::uint32_t member, std::span<const std::byte> head, std::span<const std::byte> body) override {
    TROUPE_ASSIGN(messages::Frame frame, groups_.frame_of(head, body));
    return groups_.send(group_, {.from = index_, .to = member, .frame = std::move(frame)});
  }

  Status lend(std::uint32_t member, std::span<const std::byte> head, std::shared_ptr<const LentBytes> body) override {
    TROUPE_ASSIGN(messages::Frame frame, groups_.frame_of(head, {}));
    return groups_.send(group_, {.from = index_, .to = member, .frame = std::move(frame), .lent = std::move(body)});
  }

  void deliver_to(std::function<void(collectives::PeerMessage)> receiver) override {
    delivery_.deliver_to(std::move(receiver));
  }

  void receive(std::uint32_t from, messages::Frame frame) {
    auto owner = std::make_shared<messages::Frame>(std::move(frame));
    delivery_.put({from, owner->bytes(), owner});
  }

 private:
  Groups& groups_;
  Group& group_;
  const std::uint32_t index_;
  collectives::Delivery delivery_;

 public:
  std::unique_ptr<GroupSeat> seat;  // the last, so the first to go: its communicator speaks to the very end
};

struct Groups::Group {
  Group(const RoleSpec& role, std::uint32_t index, collectives::CooperativeScheduler* scheduler)
      : role(role.name),
        number(index),
        hub(collectives::InProcessAlgorithm::kCollective, scheduler),
        scheduler(scheduler) {}

  const std::string role;
  const std::uint32_t number;     ///< index in Topology::roles
  collectives::InProcessHub hub;  ///< without a network
  collectives::CooperativeScheduler* const scheduler;
  std::mutex mutex;                                      ///< of what follows; not held while a message is handed over
  std::map<std::uint32_t, std::string> nodes;            ///< of the members that a view has named
  std::map<std::uint32_t, std::shared_ptr<Rank>> ranks;  ///< those here
  std::deque<std::pair<std::string, GroupMessage>> early;
};

Groups::Groups(const Topology& topology, std::string node, Network* network, messages::FramePool& pool,
               collectives::CooperativeScheduler* scheduler)
    : topology_(topology), node_(std::move(node)), network_(network), pool_(pool) {
  for (std::uint32_t number = 0; number < topology.roles.size(); ++number) {
    const RoleSpec& role = topology.roles[number];
    if (role.group) groups_[role.name] = std::make_unique<Group>(role, number, scheduler);
  }
}

Groups::~Groups() = default;

std::shared_ptr<GroupSeat> Groups::join(const std::string& role, std::uint32_t index) {
  const auto found = groups_.find(role);
  if (found == groups_.end()) return nullptr;
  leave(role, index);
  Group& group = *found->second;
  auto rank = std::make_shared<Rank>(*this, group, index);
  rank->seat = std::make_unique<GroupSeat>(
      network_ == nullptr
          ? group.hub.make()
          : collectives::make_group_communicator(
                *rank, index,
                {.deterministic = topology_.roles[group.number].ordered_sums, .scheduler = group.scheduler}));
  const std::lock_guard lock(group.mutex);
  group.ranks[index] = rank;
  return {rank, rank->seat.get()};
}

void Groups::leave(const std::string& role, std::uint32_t index) {
  const auto found = groups_.find(role);
  if (found == groups_.end()) return;
  std::shared_ptr<Rank> rank;
  {
    const std::lock_guard lock(found->second->mutex);
    const auto here = found->second->ranks.find(index);
    if (here == found->second->ranks.end()) return;
    rank = std::move(here->second);
    found->second->ranks.erase(here);
  }
  rank->seat->vacate(fmt::format("{}-{} ends", role, index));
}

std::optional<collectives::Activity::Now> Groups::activity(const std::string& role, std::uint32_t index) const {
  const auto found = groups_.find(role);
  if (found == groups_.end()) return std::nullopt;
  std::shared_ptr<Rank> rank;
  {
    const std::lock_guard lock(found->second->mutex);
    const auto here = found->second->ranks.find(index);
    if (here == found->second->ranks.end()) return std::nullopt;
    rank = here->second;
  }
  return rank->seat->communicator().activity().now();
}

void Groups::view(const messages::Control& order) {
  const auto found = groups_.find(order.instances.front().role);
  if (found == groups_.end() || order.nodes.size() != order.instances.size()) {
    return log::error("a view of the group of {} with {} members on {} nodes makes no sense",
                      order.instances.front().role, order.instances.size(), order.nodes.size());
  }
  Group& group = *found->second;
  collectives::GroupView view{.epoch = order.number, .size = static_cast<int>(order.instances.size())};
  const std::int64_t count = topology_.roles[group.number].count;
  for (std::size_t rank = 0; rank < order.instances.size(); ++rank) {
    const std::uint32_t index = order.instances[rank].index;
    const std::string& node = order.nodes[rank].name;
    view.members.push_back({index, fmt::format("node {}, {}", node, RoleIdentity{group.role, index, count}.name()),
                            network_ == nullptr ? "this process" : order.nodes[rank].host});
  }
  std::map<std::uint32_t, std::shared_ptr<Rank>> here;
  std::deque<std::pair<std::string, GroupMessage>> early;
  {
    const std::lock_guard lock(group.mutex);
    for (std::size_t rank = 0; rank < order.instances.size(); ++rank) {
      group.nodes[order.instances[rank].index] = order.nodes[rank].name;
    }
    here = group.ranks;
    early = std::exchange(group.early, {});
  }
  for (const auto& [from, message] : early) (void)hand_over(group, from, message);
  for (std::size_t rank = 0; rank < order.instances.size(); ++rank) {
    const auto own = here.find(order.instances[rank].index);
    if (own == here.end() || order.nodes[rank].name != node_) continue;
    view.rank = static_cast<int>(rank);
    own->second->seat->seat(view);
  }
}

void Groups::vacate(std::string_view reason) {
  for (const auto& [role, group] : groups_) {
    std::map<std::uint32_t, std::shared_ptr<Rank>> here;
    {
      const std::lock_guard lock(group->mutex);
      here = group->ranks;
    }
    for (const auto& [index, rank] : here) rank->seat->vacate(reason);
  }
}

void Groups::deliver(const std::string& from, GroupMessage message) {
  if (message.role >= topology_.roles.size()) return;
  const auto found = groups_.find(topology_.roles[message.role].name);
  if (found == groups_.end()) return;
  Group& group = *found->second;
  if (hand_over(group, from, message) || message.frame.size() > kEarlyBytes) return;
  const std::lock_guard lock(group.mutex);
  if (group.early.size() >= kEarlyMax) group.early.pop_front();
  group.early.emplace_back(from, std::move(message));
}

bool Groups::hand_over(Group& group, const std::string& from, const GroupMessage& message) {
  std::shared_ptr<Rank> rank;
  {
    const std::lock_guard lock(group.mutex);
    const auto node = group.nodes.find(message.from);
    if (node == group.nodes.end() || node->second != from) return false;
    if (const auto to = group.ranks.find(message.to); to != group.ranks.end()) rank = to->second;
  }
  if (rank) rank->receive(message.from, message.frame);
  return true;
}

Result<messages::Frame> Groups::frame_of(std::span<const std::byte> head, std::span<const std::byte> body) {
  TROUPE_ASSIGN(messages::FrameBuffer buffer, pool_.allocate(head.size() + body.size()));
  std::byte* const to = buffer.bytes().data();
  std::memcpy(to, head.data(), head.size());
  if (!body.empty()) std::memcpy(to + head.size(), body.data(), body.size());
  return std::move(buffer).freeze(head.size() + body.size());
}

Status Groups::send(Group& group, GroupMessage message) {
  std::string node;
  std::shared_ptr<Rank> rank;
  {
    const std::lock_guard lock(group.mutex);
    const auto found = group.nodes.find(message.to);
    if (found == group.nodes.end()) {
      return Error{Code::kUnavailable,
                   fmt::format("group {}: nobody knows where member {} is", group.role, message.to)};
    }
    node = found->second;
    if (node == node_) {
      if (const auto here = group.ranks.find(message.to); here != group.ranks.end()) rank = here->second;
    }
  }
  if (node != node_) {
    message.role = group.number;
    network_->send(node, std::move(message));
    return {};
  }
  if (!rank) return Error{Code::kUnavailable, fmt::format("group {}: member {} has ended", group.role, message.to)};
  if (message.lent) {  // as it would arrive over a network
    TROUPE_ASSIGN(message.frame, message.lent->with([&](std::span<const std::byte> lent) {
      return frame_of(message.frame.bytes(), lent);
    }));
  }
  rank->receive(message.from, std::move(message.frame));
  return {};
}

}  // namespace troupe::actors
