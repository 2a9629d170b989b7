#pragma once
// The ends of channels inside an actor: queues and credits, without a word about roles. Owned and fed by RoleActor.
//
// Credit rule: a consumer grants `capacity` credits (1 on a latest channel) to each producer that it is wired to, less
// the frames of that edge which it holds already (after a resume). A producer spends one a frame and gets it back when
// the consumer takes the frame. So a consumer never holds more than capacity x producers frames, whoever was restarted
// or came late.
//
// A producer keeps each frame until its credit has come back. It sends the kept ones again, first and in order, to a
// new incarnation of the consumer, so nothing is lost that the old one had not taken. Frames that the old one had taken
// are lost with it. Roles that must not lose them use take_held(): then a frame may come twice, and such roles drop
// what they have seen.
//
// Each end listens to one incarnation of the other: the newest that it has been wired to, until that is unwired. What
// an older one sent and is still under way then is dropped, since its successor may be at work already.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include <troupe/actors/runtime/protocol.hpp>
#include <troupe/actors/runtime/role.hpp>
#include <troupe/actors/runtime/topology.hpp>

namespace troupe::actors {

/// What an end has seen since it was made.
struct PortCounts {
  std::int64_t frames = 0;
  std::int64_t bytes = 0;
  Duration waited{};  ///< time during which the role was idle and this end was empty (inlet) or without credit (outlet)
  std::int64_t refused = 0;  ///< of an inlet: frames that were malformed or did not fit, see RoleContext::refuse()
};

/// Sends on behalf of the actor that owns the port, to wherever the address is.
struct PortSender {
  std::function<void(const Address& to, FrameMessage)> frame;
  std::function<void(const Address& to, CreditMessage)> credit;
  std::function<void(const Address& to, CallMessage)> call;
  std::function<void(const Address& to, AnswerMessage)> answer;
  std::function<Duration()> now;
  /// CallerPort::expire() is called at this time or soon after.
  std::function<void(Duration at)> expire_at;
  std::uint32_t incarnation = 0;  ///< of the owner
};

class InletPort final : public Inlet {
 public:
  InletPort(const Port& spec, const PortSender& sender) : spec_(spec), sender_(sender) {}

  bool empty() const override { return queue_.empty(); }
  Frame take() override;
  Frame take_held() override;
  void release_held(std::size_t count) override;
  const Frame* peek(std::size_t producer) const override;
  std::size_t producers() const override;
  Frame take(std::size_t producer) override;

  const Port& spec() const { return spec_; }
  PortCounts& counts() { return counts_; }
  const PortCounts& counts() const { return counts_; }
  /// The edge and the node of the frame that was taken last. The node is empty when it is this one or has gone.
  std::pair<EdgeId, std::string> last_sender() const;
  std::int64_t depth() const { return static_cast<std::int64_t>(queue_.size()); }
  /// Wires a producer, or its new incarnation, and grants it its credits. Frames of the old one that have come stay.
  void wire(Peer peer, std::int64_t capacity);
  /// This incarnation of the producer, and any before it, is gone for good; frames that have come stay.
  void unwire(const EdgeId& edge, std::uint32_t incarnation);
  /// False when the frame is not for this inlet as it is wired now.
  bool receive(FrameMessage message);
  /// A frame that a checkpoint says was waiting; before the first wire().
  void restore(const EdgeId& edge, Frame frame);

  struct Waiting {
    EdgeId edge;
    std::optional<Route> owed;  ///< where the credit goes back to; wire() sets it for a restored frame
    Frame frame;
    bool foreign = false;  ///< the frame came from a checkpoint or an earlier incarnation, not from `owed`
  };
  const std::deque<Waiting>& waiting() const { return queue_; }

 private:
  /// The place in the queue of the first frame whose edge satisfies `of`; on a latest channel, of that edge's newest.
  template <typename Predicate>
  std::optional<std::size_t> find(Predicate of) const;
  Frame take_at(std::size_t position);
  void give_back(const Waiting& waiting);
  const Peer* producer(const EdgeId& edge) const;

  Port spec_;
  const PortSender& sender_;
  std::vector<Peer> producers_;
  std::deque<Waiting> queue_;
  std::deque<Waiting> held_;  ///< without their frames
  EdgeId last_taken_{};
  PortCounts counts_;
};

class OutletPort final : public Outlet {
 public:
  OutletPort(const Port& spec, const PortSender& sender) : spec_(spec), sender_(sender) {}

  bool ready() const override;
  void send(Frame frame) override;
  std::size_t consumers() const override { return consumers_.size(); }
  std::int64_t credits(std::size_t consumer) const override {
    const Consumer& receiver = consumers_.at(consumer);
    return receiver.wired ? receiver.credits : 0;
  }
  bool ready(std::size_t consumer) const override { return credits(consumer) > 0; }
  void send_to(std::size_t consumer, Frame frame) override;

  const Port& spec() const { return spec_; }
  PortCounts& counts() { return counts_; }
  const PortCounts& counts() const { return counts_; }
  std::int64_t under_way() const;
  /// Adds a consumer that the topology promises. It has its number from now on, and room once it has granted credits.
  void expect(const EdgeId& edge);
  /// Wires a consumer, or its new incarnation. It may be sent to as soon as it has granted credits.
  void wire(Peer peer);
  /// This incarnation of the consumer, and any before it, is gone for good; the frames that it did not take wait for
  /// its next one.
  void unwire(const EdgeId& edge, std::uint32_t incarnation);
  /// Whether everything that was sent is under way. It is not while a living consumer must still be sent what its
  /// earlier incarnation did not take: a cut that is taken before that would lack those frames.
  bool settled() const;
  void credit(const CreditMessage& message);

 private:
  struct Consumer {
    Peer peer;
    bool met = false;    ///< has been wired once
    bool wired = false;  ///< lives
    std::int64_t credits = 0;
    std::deque<Frame> kept;       ///< stream: sent or to be sent again, not yet given back; oldest first
    std::size_t resend = 0;       ///< the last so many of `kept` have not been sent to this incarnation
    std::optional<Frame> newest;  ///< latest: what it was sent last, or will be sent next
    bool behind = false;          ///< latest: has not been sent `newest`
  };
  Consumer* find(const EdgeId& edge);
  void count(const Frame& frame);
  void offer(Consumer& consumer, Frame frame);
  void transmit(Consumer& consumer, const Frame& frame);
  void catch_up(Consumer& consumer);

  Port spec_;
  const PortSender& sender_;
  std::vector<Consumer> consumers_;
  std::vector<CreditMessage> early_;  ///< grants of consumers that this end has not been wired to yet
  std::size_t turn_ = 0;              ///< stream: whose turn it is
  std::optional<Frame> newest_;       ///< latest: for consumers that nobody expected
  PortCounts counts_;
};

class CallerPort final : public Caller {
 public:
  CallerPort(const Port& spec, const PortSender& sender) : spec_(spec), sender_(sender) {}

  bool ready() const override { return !servers_.empty() && static_cast<std::int64_t>(open_.size()) < capacity_; }
  void call(Frame request, Duration deadline, Reply reply) override;
  bool ready(std::size_t server) const override;
  void call_to(std::size_t server, Frame request, Duration deadline, Reply reply) override;

  const Port& spec() const { return spec_; }
  void wire(Peer peer, std::int64_t capacity);
  /// Calls that are open on this incarnation of the server, or an earlier one, end with kUnavailable.
  void unwire(const EdgeId& edge, std::uint32_t incarnation);
  /// Returns whether the call was still open. Late answers, and those of servers that are gone, are dropped.
  bool answer(AnswerMessage message);
  /// Ends the calls whose deadlines have passed, and returns whether there were any.
  bool expire();

 private:
  void start(const Peer& server, Frame request, Duration deadline, Reply reply);
  bool finish(std::uint64_t ticket, Result<Frame> result);

  struct Open {
    Reply reply;
    Duration deadline{};
    EdgeId edge;
    std::uint32_t incarnation = 0;  ///< of the server
  };

  Port spec_;
  const PortSender& sender_;
  std::vector<Peer> servers_;
  std::int64_t capacity_ = 0;
  std::size_t turn_ = 0;
  std::uint64_t next_ticket_ = 0;
  std::unordered_map<std::uint64_t, Open> open_;
  std::set<std::pair<Duration, std::uint64_t>> deadlines_;  ///< of the open calls, soonest first
};

class ServerPort final : public Server {
 public:
  ServerPort(const Port& spec, const PortSender& sender) : spec_(spec), sender_(sender) {}

  bool empty() const override { return queue_.empty(); }
  std::pair<Frame, std::function<void(Frame)>> take() override;
  bool alive(std::size_t caller) const override {
    return std::ranges::any_of(callers_, [&](const Peer& peer) { return peer.edge.producer == caller; });
  }

  const Port& spec() const { return spec_; }
  std::int64_t depth() const { return static_cast<std::int64_t>(queue_.size()); }
  void wire(Peer peer, std::int64_t capacity);
  /// The caller's requests stay in the queue; their answers go nowhere.
  void unwire(const EdgeId& edge, std::uint32_t incarnation);
  /// False when nothing is to be served yet: the call was for an earlier incarnation, or came before its caller was
  /// wired, and then waits for that.
  bool receive(CallMessage message);

 private:
  struct Waiting {
    CallMessage message;
    Address from;
  };

  Port spec_;
  const PortSender& sender_;
  std::vector<Peer> callers_;
  std::int64_t capacity_ = 0;  ///< of one caller
  std::deque<Waiting> queue_;
  std::deque<CallMessage> early_;
};

}  // namespace troupe::actors
