#pragma once
// Where data that comes from other nodes goes in this one: from an edge to the actor of the instance at its end.
// Written by the NodeActor, read by the network's threads, so it has a lock; what is not in it is dropped and counted.
//
// The chief tells both ends of a new edge, and data is faster than control: the first word of one end, its grant of
// credits or a call, may be here before the chief's. It waits for that.
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <shared_mutex>
#include <string>
#include <vector>

#include <troupe/actors/runtime/protocol.hpp>
#include <troupe/actors/runtime/topology.hpp>

namespace troupe::actors {

class Routes {
 public:
  explicit Routes(const Topology& topology) : topology_(topology) {}

  /// Data for this instance goes to `actor` from now on. `number` is the instance's number in the run.
  void add(const std::string& role, std::uint32_t index, std::uint32_t number, caf::actor actor);
  void remove(const std::string& role, std::uint32_t index);
  /// Which node an edge's other end is on, so that nobody else can speak for it; see deliver(). Delivers what has come
  /// from there too early.
  void expect(const EdgeId& edge, bool from_producer, const std::string& node);
  void clear();

  /// Hands a frame, credit, call or answer to its instance. False, and nothing happens, when the channel does not
  /// exist, its kind does not carry such messages, the instance is not here, or the edge's other end is not on node
  /// `from`. A credit or call of an edge that nobody expects yet waits; at most kEarlyMax of one node, then its oldest
  /// is dropped.
  bool deliver(const std::string& from, RemoteMessage message);

  std::uint64_t refused() const { return refused_.load(); }

  static constexpr std::size_t kEarlyMax = 4096;

 private:
  using Side = std::pair<EdgeId, bool>;  ///< an edge and whether its producer is meant
  struct Key {
    std::string role;
    std::uint32_t index = 0;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  /// The actor at the end of `edge` that a message is for; with the lock held.
  caf::actor target(const EdgeId& edge, bool to_consumer, bool request) const;
  bool hand_over(RemoteMessage message) const;

  const Topology& topology_;
  mutable std::shared_mutex mutex_;
  std::map<Key, caf::actor> instances_;
  std::map<std::uint32_t, Key> numbers_;  ///< of the instances here, for credits of their reports
  std::map<Side, std::string> nodes_;
  std::map<std::string, std::deque<RemoteMessage>> early_;  ///< by the node that they came from
  mutable std::atomic<std::uint64_t> refused_{0};
};

}  // namespace troupe::actors
