#pragma once
// What the chief and the nodes of a run say to each other: who is there, which instances run where, cuts, the end.
// Small and rare. One struct for all kinds, because most fields are shared; the table says which kind uses which.
// Schema: control.capnp.
//
//   node -> chief; each with birth, of the process that says it
//     kJoin      node, protocol, config_hash, term (newest seen), incarnation (0: new process), nodes[0] (own
//                address), instances (that run here already: the chief was lost, not the node), text (which host it
//                shares memory with; empty: none), number: grows with each request, and not when one is repeated,
//                counters[0]: how many instances of each elastic role it offers to host, if it was not planned
//     kAlive     late_ms; number = sequence; every heartbeat period
//     kUp kDone  instances[0]
//     kFailed    instances[0], code, text
//     kCaptured  number (cut), code and text when it failed there
//     kWritten   number (cut), counters, text (CutPart::id), texts (instances in it); code and text when it failed
//     kStatus    text (JSON), texts: what makes this node slower than it could be
//     kLeave     text (why): the node ends in good order
//     kChecked   the answer to kCheck: counters (values: numbers of the cuts whose part is whole), text (what is wrong)
//     kRegroup   instances[0] (a member), number: the epoch of its group that has broken, text (why)
//     kRoundEnded  number (round; 0: it is there), counters ("NODE/LANE": messages that it has sent there in all);
//                with number 0 also nodes[0] (own address). Of deterministic runs, see actors/control/lockstep.hpp
//   chief -> node; each with birth: of the process that is meant
//     kWelcome   term, incarnation, number: the heartbeat period in ms
//     kRefuse    code, text; fenced when the node was declared dead and must exit
//     kHeard     number: the heartbeat period in ms, from now on
//     kNodes     nodes: of those that it has something to do with; texts: the names of some that have gone; resume:
//     that
//                is all of them, and whoever is in neither list has gone too
//     kSpawn     instances[0] (number, incarnation), number: cut to restore from (0: none), resume: also waiting frames
//     kWire      instances[0] (whom), edges
//     kUnwire    instances[0] (whom), edges
//     kStart     instances[0]
//     kCut       number, nodes (names of those it has something to do with that take part), counters (values: numbers
//     of
//                the cuts whose parts are to stay)
//     kResume    number: the cut is over; code and text when it failed
//     kCommit    number: the cut is on every node's disk; counters as in kCut
//     kCheck     counters: of parts that the run may go on from, the cut's number and CutPart::id
//     kLive      texts: roles with an instance at work
//     kGroup     number (epoch), instances (the members, by rank), nodes (of each: name; host as in its kJoin's text)
//     kRound     number (round that has ended everywhere), counters ("NODE/LANE": messages that it gets from there in
//                all); resume: it was the last one, and nobody goes in step any more
//     kAskStatus
//     kEnd       text (why): end in good order
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/messages/checkpoint.hpp>
#include <troupe/messages/frame.hpp>

namespace troupe::messages {

enum class ControlKind : std::uint16_t {
  kJoin = 0,
  kAlive = 1,
  kUp = 2,
  kDone = 3,
  kFailed = 4,
  kCaptured = 5,
  kWritten = 6,
  kStatus = 7,
  kLeave = 8,
  kWelcome = 9,
  kRefuse = 10,
  kHeard = 11,
  kNodes = 12,
  kSpawn = 13,
  kWire = 14,
  kUnwire = 15,
  kStart = 16,
  kCut = 17,
  kResume = 18,
  kCommit = 19,
  kLive = 20,
  kAskStatus = 21,
  kEnd = 22,
  kGroup = 23,
  kRegroup = 24,
  kCheck = 25,
  kChecked = 26,
  kRoundEnded = 27,
  kRound = 28,
};
inline constexpr std::uint16_t kControlKinds = 29;
std::string_view to_string(ControlKind kind);

struct ControlInstance {
  std::string role;
  std::uint32_t index = 0;
  std::uint32_t incarnation = 0;
  std::uint32_t number = 0;  ///< in the run; names its report edge
  bool done = false;
  friend bool operator==(const ControlInstance&, const ControlInstance&) = default;
};

struct ControlEdge {
  std::uint32_t channel = 0;
  std::uint32_t producer = 0;
  std::uint32_t consumer = 0;
  bool peer_produces = false;
  std::uint32_t peer_incarnation = 0;
  std::string peer_node;
  std::string peer_role;
  friend bool operator==(const ControlEdge&, const ControlEdge&) = default;
};

struct ControlNode {
  std::string name;
  std::uint32_t incarnation = 0;
  std::string host;
  std::uint16_t port = 0;
  std::uint64_t birth = 0;  ///< of the process that serves the name now
  friend bool operator==(const ControlNode&, const ControlNode&) = default;
};

struct Control {
  ControlKind kind = ControlKind::kAlive;
  std::string node;
  std::uint64_t birth = 0;  ///< random, of a process
  std::uint32_t protocol = 0;
  std::uint64_t config_hash = 0;
  std::uint64_t term = 0;         ///< of the chief: grows with every chief process
  std::uint32_t incarnation = 0;  ///< of the node
  std::uint64_t number = 0;
  std::uint32_t late_ms = 0;  ///< by how much the sender's own timer was late
  bool resume = false;
  bool fenced = false;
  bool failed = false;  ///< code and text hold an error
  Code code = Code::kInternal;
  std::string text;
  std::vector<std::string> texts;
  std::vector<ControlInstance> instances;
  std::vector<ControlEdge> edges;
  std::vector<ControlNode> nodes;
  std::vector<Counter> counters;
  friend bool operator==(const Control&, const Control&) = default;
};

/// Version of everything above and of the link's frames; nodes of one run must agree.
inline constexpr std::uint32_t kControlProtocol = 4;
/// Most instances of a role that one node which was not planned may offer to host.
inline constexpr std::int64_t kMaxElasticInstances = 64;
/// Longest encoded control message: it shares the links' limit for control.
inline constexpr std::size_t kMaxControlBytes = std::size_t{1} << 20;
/// Longest name, host and each of `texts` in one.
inline constexpr std::size_t kMaxControlNameBytes = 256;

/// Errors: the pool's; kInvalidArgument when it would be longer than kMaxControlBytes.
Result<Frame> make_control(FramePool& pool, const Control& control);
/// Errors: kCorrupt (malformed bytes), kInvalidArgument (another kind of message, a value out of its bounds, no
/// instance where the table above has one).
Result<Control> read_control(const Frame& frame);

}  // namespace troupe::messages
