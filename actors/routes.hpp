#pragma once
// Where data that comes from other nodes goes in this one: from an edge to the actor of the instance at its end.
// Written by the NodeActor, read by the network's threads, so it has a lock; what is not in it is dropped and counted.
#include <atomic>
#include <cstdint>
#include <map>
#include <shared_mutex>
#include <string>
#include <vector>

#include <troupe/actors/protocol.hpp>
#include <troupe/actors/topology.hpp>

namespace troupe::actors {

class Routes {
 public:
  explicit Routes(const Topology& topology) : topology_(topology) {}

  /// Data for this instance goes to `actor` from now on. `number` is the instance's number in the run.
  void add(const std::string& role, std::uint32_t index, std::uint32_t number, caf::actor actor);
  void remove(const std::string& role, std::uint32_t index);
  /// Which node an edge's other end is on, so that nobody else can speak for it; see deliver().
  void expect(const EdgeId& edge, bool from_producer, const std::string& node);
  void clear();

  /// Hands a frame, credit, call or answer to its instance. False, and nothing happens, when the channel does not
  /// exist, its kind does not carry such messages, the instance is not here, or the edge's other end is not on node
  /// `from`.
  bool deliver(const std::string& from, RemoteMessage message);

  std::uint64_t refused() const { return refused_.load(); }

 private:
  struct Key {
    std::string role;
    std::uint32_t index = 0;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  /// The actor at the end of `edge` that the message is for.
  caf::actor target(const std::string& from, const EdgeId& edge, bool to_consumer, bool request) const;

  const Topology& topology_;
  mutable std::shared_mutex mutex_;
  std::map<Key, caf::actor> instances_;
  std::map<std::uint32_t, Key> numbers_;  ///< of the instances here, for credits of their reports
  std::map<std::pair<EdgeId, bool>, std::string> nodes_;
  mutable std::atomic<std::uint64_t> refused_{0};
};

}  // namespace troupe::actors
