#pragma once
// What is inside of a NodeNetwork: node_network.cpp makes, ends and sends, node_network_receive.cpp lets in and
// receives. Internal to these two.
//
// Threads: the threads of the listener and the acceptor take links in, and each lane has a thread of its own. The
// worker does what takes a moment for this node, and a second acceptor's thread does it for visitors. Locks:
// PeerNode::mutex may be held when Impl::mutex is taken, and nothing may be taken under that; neither is held while a
// lane is stopped or a callback runs.
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <troupe/actors/network/node_network.hpp>
#include <troupe/core/clock.hpp>
#include <troupe/transport/listener.hpp>
#include <troupe/transport/shared_memory.hpp>
#include <troupe/transport/stream.hpp>
#include <troupe/transport/stream_acceptor.hpp>

namespace troupe::actors {

enum Lane : std::size_t { kControlLane = 0, kUrgentLane = 1, kBulkLane = 2, kGroupLane = 3, kLanes = 4 };
inline constexpr std::array<const char*, kLanes> kLaneNames = {"control", "urgent", "bulk", "group"};

/// The lane on which a message travels.
inline std::size_t lane_of(const RemoteMessage& message) {
  if (std::holds_alternative<messages::Control>(message)) return kControlLane;
  if (std::holds_alternative<GroupMessage>(message)) return kGroupLane;
  return std::holds_alternative<CreditMessage>(message) ? kUrgentLane : kBulkLane;
}

/// A lane from another node.
struct Inbound {
  std::shared_ptr<transport::StreamReceiver> receiver;
  transport::Identity identity;              ///< what its messages may be
  transport::StreamId session{};             ///< of the process that sends
  std::deque<transport::StreamId> replaced;  ///< of those before it, which must not come back
};

/// Another node, as far as this one has to do with it.
struct PeerNode {
  std::string name;
  std::mutex mutex;                            ///< of everything below; never held while a lane is stopped
  bool closed = false;                         ///< the network has ended: no new lanes
  std::optional<messages::ControlNode> known;  ///< as the chief said last
  std::optional<transport::Address> control;   ///< where its control lane is dialled
  std::uint64_t birth = 0;                     ///< of the process that its control lane leads to
  std::array<std::shared_ptr<transport::StreamSender>, kLanes> out;
  std::array<Inbound, kLanes> in;
  std::shared_ptr<transport::SharedSender> shared_out;
  std::vector<std::shared_ptr<transport::SharedSender>> former_out;  ///< that may still have something lent
  std::shared_ptr<transport::SharedReceiver> shared_in;
  std::optional<Duration> no_lane_said;  ///< when it was last said that there is no thread or memory for one
  std::optional<Duration> heard;         ///< when its control lane said something last
  Duration heard_within{};               ///< that long after what it had said before
  std::size_t senseless = 0;             ///< messages that made no sense since `senseless_since`
  Duration senseless_since{};
  Duration shut_out_until{};
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
  std::vector<std::shared_ptr<PeerNode>> all_peers();
  std::shared_ptr<transport::StreamSender> sender(const std::shared_ptr<PeerNode>& to, std::size_t lane);
  void say_no_lane(PeerNode& of, std::size_t lane, const Error& why) const;
  void offer_memory(PeerNode& to, bool new_receiver);
  static void retire_memory(PeerNode& to);
  void learn(PeerNode& peer, const std::optional<messages::ControlNode>& where);
  void post(std::function<void()> task);
  void drop(std::shared_ptr<transport::StreamSender> lane);
  void drop(std::shared_ptr<transport::StreamReceiver> lane);
  void work();
  void take(std::unique_ptr<transport::Link> link);
  void greet(std::unique_ptr<transport::Link> link, transport::StreamHello hello);
  void serve(std::unique_ptr<transport::Link> visitor);
  void serve_operator(std::unique_ptr<transport::Link> link);
  Status admit(PeerNode& from, std::size_t lane, const transport::StreamHello& hello);
  void receive(const std::shared_ptr<PeerNode>& from, const transport::Identity& identity, std::size_t lane,
               transport::StreamMessage message);
  Result<RemoteMessage> open(PeerNode& from, std::size_t lane, transport::StreamMessage message);
  void deliver(const std::shared_ptr<PeerNode>& from, const transport::Identity& identity, RemoteMessage message);
  void joins(const std::shared_ptr<PeerNode>& from, const transport::Identity& identity, messages::Control& join);
  void answer_operators(const messages::Control& answer);
  void refuse(const Error& error);
  /// Says once that frames of `peer`, or for it, do not go through shared memory, and keeps it for trouble(). `why` is
  /// empty when they do.
  void note_memory(const std::string& peer, const std::string& why);
  void senseless(const std::shared_ptr<PeerNode>& from, const Error& error);

  const NodeNetworkOptions options;
  const SteadyClock clock{};
  std::shared_ptr<LendableMemory> memory;  ///< null: the system has none, and everything goes over the links
  messages::FramePool frames;
  std::shared_ptr<transport::ReceivePool> receive_pool = std::make_shared<transport::ReceivePool>();
  NetworkEvents events;

  mutable std::mutex mutex;  ///< of the maps and the queue
  std::condition_variable changed;
  std::map<std::string, std::shared_ptr<PeerNode>> peers;
  std::map<std::string, std::uint64_t> refusals;
  std::map<std::string, std::string> without_memory;  ///< see note_memory(); by peer, or by own node's name
  std::atomic<std::uint64_t> shared = 0;
  std::uint64_t own_birth = 0;  ///< from start() on
  std::deque<std::function<void()>> tasks;
  std::deque<std::unique_ptr<transport::Link>> operators;  ///< wait for an answer
  std::vector<std::unique_ptr<transport::Link>> early;     ///< have come before start()
  bool stopped = false;

  std::thread worker;                                   ///< ends lanes, answers operators: what may take a moment
  std::unique_ptr<transport::StreamAcceptor> acceptor;  ///< from start() on
  std::unique_ptr<transport::StreamAcceptor> visitors;  ///< the same, of those who come with a token or a question
  std::unique_ptr<transport::Listener> listener;
};

}  // namespace troupe::actors
