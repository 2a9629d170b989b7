#pragma once
// The groups that instances of this process belong to (RoleSpec::group): seats for the instances, the chief's views for
// the seats, and the way between ranks: by hand within this process, through the network to other nodes. Written by the
// NodeActor, used by ranks from their own threads and by the network's, so it has locks of its own.
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>

#include <troupe/actors/runtime/group_seat.hpp>
#include <troupe/actors/runtime/remote.hpp>
#include <troupe/actors/runtime/topology.hpp>
#include <troupe/collectives/in_process.hpp>
#include <troupe/collectives/peers.hpp>
#include <troupe/messages/control.hpp>
#include <troupe/messages/frame.hpp>

namespace troupe::actors {

class Groups {
 public:
  /// network: null in a run within one process, whose ranks meet in memory. scheduler: null when each instance has a
  /// thread of its own; else they take its turns. All that is passed outlives the groups.
  Groups(const Topology& topology, std::string node, Network* network, messages::FramePool& pool,
         collectives::CooperativeScheduler* scheduler = nullptr);
  ~Groups();
  Groups(const Groups&) = delete;
  Groups& operator=(const Groups&) = delete;

  /// A seat for a new incarnation of an instance here; null when its role has no group. The one that it replaces is
  /// vacated.
  std::shared_ptr<GroupSeat> join(const std::string& role, std::uint32_t index);
  /// Ends all waits of the instance in its group.
  void leave(const std::string& role, std::uint32_t index);
  /// What an instance here does in its group right now, whatever its thread waits for; empty for one without a group.
  std::optional<collectives::Activity::Now> activity(const std::string& role, std::uint32_t index) const;
  /// The chief's word on a group (ControlKind::kGroup): seats those of its members that are here.
  void view(const messages::Control& group);
  /// Ends the waits of everyone here until the next view, because the run pauses or is over.
  void vacate(std::string_view reason);

  /// Takes a message of another node; called on a thread of the network. When the newest view has the sender on
  /// another node, the message waits for the next view, and is dropped if that one disagrees too. At most kEarlyMax
  /// messages of a role wait, each of at most kEarlyBytes (an epoch begins with short ones). More are dropped, and the
  /// epoch then fails by its deadline.
  void deliver(const std::string& from, GroupMessage message);

  static constexpr std::size_t kEarlyMax = 256;
  static constexpr std::size_t kEarlyBytes = 65536;

 private:
  class Rank;
  struct Group;
  /// False when the member is not known to be on that node.
  bool hand_over(Group& group, const std::string& from, const GroupMessage& message);
  /// Sends to a member of the group, wherever it is. Errors: as Peers::send().
  Status send(Group& group, GroupMessage message);
  /// A copy of both, one after the other. Errors: as of the pool.
  Result<messages::Frame> frame_of(std::span<const std::byte> head, std::span<const std::byte> body);

  const Topology& topology_;
  const std::string node_;
  Network* const network_;
  messages::FramePool& pool_;
  std::map<std::string, std::unique_ptr<Group>> groups_;  ///< of all roles that have one; never changes
};

}  // namespace troupe::actors
