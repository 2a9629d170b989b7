#pragma once
// The seam between nodes: all that a node ever hands to another one, and the interface that carries it. The real
// network (actors/network/node_network.hpp: TLS links) and the simulated one of the tests (several nodes in one
// process, virtual time, faults from a seed) both stand behind it, and actors see neither.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/core/lendable_memory.hpp>
#include <troupe/core/lent_bytes.hpp>
#include <troupe/messages/control.hpp>
#include <troupe/messages/frame.hpp>

namespace troupe::actors {

/// One pair of instances of one channel.
struct EdgeId {
  std::uint32_t channel = 0;   ///< index in Topology::channels; kReportChannel for reports
  std::uint32_t producer = 0;  ///< instance index of the producing (calling) role
  std::uint32_t consumer = 0;  ///< instance index of the consuming (serving) role

  friend auto operator<=>(const EdgeId&, const EdgeId&) = default;
};
/// Reports travel like frames of a channel, but every instance has such an edge without declaring it. `producer` is
/// then the instance's number in the run.
inline constexpr std::uint32_t kReportChannel = 0xffffffff;

/// An edge between two certain incarnations. Receivers drop what is addressed to another incarnation than their own.
struct Route {
  EdgeId edge;
  std::uint32_t producer_incarnation = 0;
  std::uint32_t consumer_incarnation = 0;
};

struct FrameMessage {
  Route route;
  messages::Frame frame;
};

/// The consumer has room for `credits` more frames of the edge, and has taken the oldest `taken` of those that this
/// incarnation of it was sent.
struct CreditMessage {
  Route route;
  std::uint32_t credits = 1;
  std::uint32_t taken = 0;
};

struct CallMessage {
  Route route;
  std::uint64_t ticket = 0;  ///< the caller's number for the call
  messages::Frame frame;
};

struct AnswerMessage {
  Route route;
  std::uint64_t ticket = 0;
  std::optional<Error> error;  ///< set when there is no answer
  messages::Frame frame;
};

/// Every frame that this node sent before the cut is ahead of it.
struct MarkerMessage {
  std::uint64_t cut = 0;
};

/// What one member of a role's group says to another for their collectives (actors/control/groups.hpp). The frame holds
/// their own bytes, not a Cap'n Proto message.
struct GroupMessage {
  std::uint32_t role = 0;  ///< index in Topology::roles
  std::uint32_t from = 0;  ///< instance indices
  std::uint32_t to = 0;
  messages::Frame frame;
  std::shared_ptr<const LentBytes> lent = {};  ///< what follows the frame on the way; what arrives is one frame
};

using RemoteMessage = std::variant<FrameMessage, CreditMessage, CallMessage, AnswerMessage, MarkerMessage,
                                   messages::Control, GroupMessage>;

/// What the network tells the node that owns it. Called on the network's threads, one call at a time for each peer;
/// must not block.
struct NetworkEvents {
  std::function<void(const std::string& from, RemoteMessage)> received;
  /// A message that its sender may not send, and that is dropped. May be empty.
  std::function<void(const std::string& from, const RemoteMessage&)> refused = {};
  /// Control messages reach this process of a node (again), or no longer do. Data needs no such event, since it waits.
  /// `birth` is what the process said when it joined, and 0 for the chief.
  std::function<void(const std::string& node, std::uint64_t birth)> found;
  std::function<void(const std::string& node, std::uint64_t birth)> lost;
};

/// The name by which nodes address the chief.
inline constexpr const char* kChiefNode = "chief";
/// The name of whoever asks the chief from outside, `troupe status` and `troupe stop`: control only, and only from
/// somebody whose certificate has the role "operator".
inline constexpr const char* kOperator = "operator";

/// Carries messages to other nodes of the run, named as the chief names them.
class Network {
 public:
  virtual ~Network() = default;

  /// From now on events arrive. `birth` is that of this process. Called once.
  virtual void start(std::uint64_t birth, NetworkEvents events) = 0;

  /// Any thread; never blocks. Frames, calls, answers and markers to one node arrive in order and once, as long as both
  /// nodes live, however often the connection between them breaks. The same holds for credits among themselves, which
  /// never wait behind frames, and for what groups say. Control messages arrive in order or, when the connection
  /// breaks, not at all: whoever needs an answer asks again. The credits of the channels bound what is queued for a
  /// node. Data for a node is dropped when nobody has said how to reach it.
  virtual void send(const std::string& node, RemoteMessage message) = 0;

  /// The chief says where the nodes are that this one has to do with. A node that is not in the list is gone: nothing
  /// is sent to it any more, and nothing that it says counts. A node in the list with a new incarnation is a new
  /// process: what waited for the old one is dropped. Data goes only to the process with the birth in the list, since
  /// an earlier process may still live at its address, or a later one may wait there to be let in. An entry with port 0
  /// says nothing new: what is known of that node stays.
  virtual void know(const std::vector<messages::ControlNode>& nodes) = 0;
  /// The same for some nodes, with the names of some that have gone. Nothing changes for all others.
  virtual void know_more(const std::vector<messages::ControlNode>& nodes, const std::vector<std::string>& gone) = 0;

  /// The memory in which frames are best made: other nodes of this host read them there without a copy. Null: any.
  virtual std::shared_ptr<LendableMemory> frame_memory() const { return nullptr; }

  /// What makes the traffic slower than it could be, one line a reason; empty: nothing does. Any thread.
  virtual std::vector<std::string> trouble() const { return {}; }

  /// Ends all traffic; no event comes after it has returned. Other nodes of this host may still read frames here, so no
  /// role may be left that writes over them. Idempotent.
  virtual void stop() = 0;
};

}  // namespace troupe::actors
