#pragma once
// Rounds of a deterministic run over nodes. Each node runs its own actors in virtual time, and what comes from another
// node must come at a moment that no wire decides. So all nodes go in step: a round is a fixed span of virtual time,
// and what was sent in it is delivered between it and the next one, the nodes one after the other by name. Then nothing
// depends on which of them was faster. A Network around the one that carries, whose only user is the Runtime's loop.
//
//   a node           the chief                     another node
//     |-- kRoundEnded 4 -->|<----- kRoundEnded 4 ------|     "I have sent so many messages to each"
//     |<----- kRound 4 ----|------- kRound 4 --------->|     "so many come from each": wait for them, deliver, go on
//
// Messages themselves take their own ways at once, and wait where they arrive. The first round begins when all planned
// nodes are there; what that takes in real time leaves no trace. A node that is lost ends the run, as does one that
// does not end its round for kPatience: what its successor did could not be repeated.
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <troupe/actors/runtime/remote.hpp>
#include <troupe/core/clock.hpp>
#include <troupe/core/error.hpp>

namespace troupe::actors {

struct LockstepOptions {
  Network* network = nullptr;  ///< that carries; outlives this
  std::string node;            ///< this one
  std::set<std::string> all;   ///< on the chief: the nodes of the plan, itself among them
  messages::ControlNode address;
  std::uint64_t config_hash = 0;
};

/// send(), know() and know_more() are called in turns, the rest by the loop's thread.
class Lockstep final : public Network {
 public:
  /// Of virtual time. A message takes one to two rounds, so short ones make pipelines fuller and runs longer.
  static constexpr Duration kRound = std::chrono::milliseconds(1);
  /// In real time: for a node to come, and for the longest step of one.
  static constexpr Duration kPatience = std::chrono::minutes(10);

  explicit Lockstep(LockstepOptions options);

  // Network, for the actors of this node. Events come only from within next_round() and drain().
  void start(std::uint64_t birth, NetworkEvents events) override;
  void send(const std::string& node, RemoteMessage message) override;
  void know(const std::vector<messages::ControlNode>& nodes) override { options_.network->know(nodes); }
  void know_more(const std::vector<messages::ControlNode>& nodes, const std::vector<std::string>& gone) override {
    options_.network->know_more(nodes, gone);
  }
  std::shared_ptr<LendableMemory> frame_memory() const override { return options_.network->frame_memory(); }
  std::vector<std::string> trouble() const override { return options_.network->trouble(); }
  void stop() override { options_.network->stop(); }

  /// Whether the next round has begun: this node's part of the last one has ended, all others' have too, and what they
  /// sent has been delivered. Waits for that at most `wait` in real time; to be called again until it is true.
  /// Errors: kUnavailable (a node was lost), kDeadlineExceeded (kPatience is over), kCancelled (this one was fenced).
  Result<bool> next_round(Duration wait);
  /// The run ends, and nothing is in step any more: all nodes are told so. What chief and nodes say to each other
  /// counts when it arrives, and nothing else does: no role may do anything that another run did not.
  void release();
  /// Whether the chief has done so.
  bool released() const;
  /// After that: delivers what has come and counts.
  void drain();

 private:
  static constexpr std::size_t kLanes = 4;
  /// Messages of a node that wait on a lane: credits and calls under way keep them far below. One more ends the run.
  static constexpr std::size_t kWaitingMax = std::size_t{1} << 18;
  /// Questions of operators; of more the oldest gets no answer.
  static constexpr std::size_t kAskedMax = 16;
  using Counts = std::array<std::uint64_t, kLanes>;
  struct Peer {
    Counts sent{};       ///< to it, in all
    Counts due{};        ///< from it by the end of this round, in all
    Counts delivered{};  ///< from it, in all
    /// From it; nullopt: one that was refused, and counts all the same.
    std::array<std::deque<std::optional<RemoteMessage>>, kLanes> waiting;
    bool found = false;                     ///< on the chief: its control lane is there
    std::optional<std::uint64_t> ended;     ///< on the chief: its last round
    std::map<std::string, Counts> sent_to;  ///< on the chief: what it says of others
  };

  bool leads() const { return options_.node == kChiefNode; }
  void received(const std::string& from, RemoteMessage message);
  void keep(const std::string& from, std::size_t lane, std::optional<RemoteMessage> message);
  void round_message(const std::string& from, const messages::Control& control);
  /// On the chief: whether who says this is one of the plan, with the same configuration; else it is told.
  bool takes_part(const std::string& from, const messages::Control& control);
  void found(const std::string& node);
  void lost(const std::string& node);
  void fail(Error error);
  bool has_begun() const;
  // With the lock held.
  messages::Control counts(messages::ControlKind kind, const std::map<std::string, Counts>& of) const;
  void end_round();
  /// On the chief: says to all what is due, once all have ended the round.
  void begin_if_all_ended();
  bool has_ended(const Peer& peer) const;
  bool all_here() const;
  std::string missing() const;

  const LockstepOptions options_;
  NetworkEvents events_;
  std::uint64_t birth_ = 0;

  mutable std::mutex mutex_;  ///< of everything below
  std::condition_variable changed_;
  std::map<std::string, Peer> peers_;    ///< by name, in whose order messages are delivered
  std::deque<messages::Control> asked_;  ///< by operators
  std::uint64_t round_ = 0;              ///< that runs, or has ended here; 0: before the first
  bool ended_ = false;                   ///< here
  bool begun_ = false;                   ///< the next one may begin, once all that is due has come
  std::chrono::steady_clock::time_point waits_since_;
  bool released_ = false;
  std::optional<Error> failure_;
};

}  // namespace troupe::actors
