#pragma once
// The ends of channels inside an actor: queues and credits, without a word about roles. Owned and fed by RoleActor.
// Credit rule: a producer starts with `capacity` credits for each consumer (1 on a latest channel), spends one a frame
// and gets it back when the consumer takes the frame. So a consumer never holds more than capacity x producers frames.
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include <troupe/actors/protocol.hpp>
#include <troupe/actors/role.hpp>
#include <troupe/actors/topology.hpp>

namespace troupe::actors {

/// What an end has seen since it was made.
struct PortCounts {
  std::int64_t frames = 0;
  std::int64_t bytes = 0;
  Duration waited{};  ///< time during which the role was idle and this end was empty (inlet) or without credit (outlet)
};

/// Sends on behalf of the actor that owns the port.
struct PortSender {
  std::function<void(const caf::actor& to, FrameMessage)> frame;
  std::function<void(const caf::actor& to, EdgeId)> credit;
  std::function<void(const caf::actor& to, CallMessage)> call;
  std::function<void(const caf::actor& to, AnswerMessage)> answer;
  std::function<Duration()> now;
  /// CallerPort::expire() is called at this time or soon after.
  std::function<void(Duration at)> expire_at;
};

class InletPort final : public Inlet {
 public:
  InletPort(const Port& spec, const PortSender& sender) : spec_(spec), sender_(sender) {}

  bool empty() const override { return queue_.empty(); }
  Frame take() override;
  const Frame* peek(std::size_t producer) const override;
  Frame take(std::size_t producer) override;

  const Port& spec() const { return spec_; }
  PortCounts& counts() { return counts_; }
  std::int64_t depth() const { return static_cast<std::int64_t>(queue_.size()); }
  void add_producer(Peer peer) { producers_.push_back(std::move(peer)); }
  /// Whether frames of this edge belong here.
  bool takes(const EdgeId& edge) const;
  /// The producer is a new incarnation, which starts with full credit: frames of the old one stay valid, but their
  /// credits are not given back.
  void rewire(const EdgeId& edge, const caf::actor& actor);
  void receive(FrameMessage message);

  struct Waiting {
    FrameMessage message;
    bool credit_owed = true;
  };
  const std::deque<Waiting>& waiting() const { return queue_; }

 private:
  /// In the queue, the first frame of an edge that `of` holds for; of a latest channel the newest of that edge.
  template <typename Predicate>
  std::optional<std::size_t> find(Predicate of) const;
  Frame take_at(std::size_t position);
  void give_back(const Waiting& waiting);

  Port spec_;
  const PortSender& sender_;
  std::vector<Peer> producers_;
  std::deque<Waiting> queue_;
  PortCounts counts_;
};

class OutletPort final : public Outlet {
 public:
  OutletPort(const Port& spec, const PortSender& sender) : spec_(spec), sender_(sender) {}

  bool ready() const override;
  void send(Frame frame) override;
  std::size_t consumers() const override { return consumers_.size(); }
  bool ready(std::size_t consumer) const override;
  void send_to(std::size_t consumer, Frame frame) override;

  const Port& spec() const { return spec_; }
  PortCounts& counts() { return counts_; }
  /// `used` credits are already spent on frames that a restored consumer holds.
  void add_consumer(Peer peer, std::int64_t capacity, std::int64_t used);
  /// The consumer is a new incarnation: full credit, and on a latest channel the newest frame once more.
  void rewire(const EdgeId& edge, const caf::actor& actor);
  void credit(const EdgeId& edge, const caf::actor_addr& from);

 private:
  struct Consumer {
    Peer peer;
    std::int64_t capacity = 1;
    std::int64_t credits = 1;
    std::optional<Frame> newest;  ///< latest: what it was sent last, or will be sent next
    bool behind = false;          ///< latest: has not been sent `newest`
  };
  void count(const Frame& frame);
  void offer(Consumer& consumer, Frame frame);
  void transmit(Consumer& consumer, Frame frame);

  Port spec_;
  const PortSender& sender_;
  std::vector<Consumer> consumers_;
  std::size_t turn_ = 0;  ///< stream: whose turn it is
  PortCounts counts_;
};

class CallerPort final : public Caller {
 public:
  CallerPort(const Port& spec, const PortSender& sender) : spec_(spec), sender_(sender) {}

  bool ready() const override { return static_cast<std::int64_t>(open_.size()) < capacity_; }
  void call(Frame request, Duration deadline, Reply reply) override;

  const Port& spec() const { return spec_; }
  void add_server(Peer peer, std::int64_t capacity);
  void rewire(const EdgeId& edge, const caf::actor& actor);
  /// Whether the call was still open; late answers are dropped.
  bool answer(AnswerMessage message);
  /// Ends the calls whose deadlines have passed. Whether there were any.
  bool expire();

 private:
  bool finish(std::uint64_t ticket, Result<Frame> result);

  struct Open {
    Reply reply;
    Duration deadline{};
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

  const Port& spec() const { return spec_; }
  void add_caller(std::int64_t capacity) { limit_ += capacity; }
  void receive(CallMessage message, caf::actor from);

 private:
  struct Waiting {
    CallMessage message;
    caf::actor from;
  };

  Port spec_;
  const PortSender& sender_;
  std::int64_t limit_ = 0;
  std::deque<Waiting> queue_;
};

}  // namespace troupe::actors
