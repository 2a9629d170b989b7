#pragma once
// Every message that passes between actors, and who understands it. Included by the actors only: it pulls in CAF.
// Three kinds: data between instances of roles, wherever they live; orders and reports between a node and its own
// instances; control between the chief and the nodes.
//
//   producer --frame--> consumer     consumer --credit--> producer          stream and latest channels
//   caller --call--> server          server --answer--> caller              request channels
//   node --wire, unwire, start, pause, resume, save, committed, stop, live, group--> instance
//   instance --up, done, failed, paused, saved--> node
//   chief <--control--> node                                                messages::Control
//   runtime --checkpoint, stop--> chief --ended, checkpoint done--> runtime
//
// Between two nodes data and control go through the seam in actors/runtime/remote.hpp; within a node they go by
// pointer.
//
// Credits are granted by the consumer, when it is wired to a producer and whenever it takes a frame, and every message
// carries the incarnations of both ends: what was meant for, or comes from, an instance that has been replaced since is
// told apart from what is current without any clock.
//
// Ordering: messages between two actors keep their order, also through the seam. So once an instance has answered
// `pause`, each frame that it sent is ahead of the marker that its node sends afterwards, and a node that has all
// markers holds every frame that is under way to it: a consistent cut (Chandy and Lamport 1985, with senders paused).
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <caf/all.hpp>

#include <troupe/actors/runtime/remote.hpp>
#include <troupe/actors/runtime/role.hpp>
#include <troupe/core/error.hpp>
#include <troupe/messages/control.hpp>
#include <troupe/messages/frame.hpp>

namespace troupe::actors {

// Data between instances; see remote.hpp for the contents.
using frame_atom = caf::atom_constant<caf::atom("frame")>;    // FrameMessage
using credit_atom = caf::atom_constant<caf::atom("credit")>;  // CreditMessage
using call_atom = caf::atom_constant<caf::atom("call")>;      // CallMessage
using answer_atom = caf::atom_constant<caf::atom("answer")>;  // AnswerMessage

// Node to its instances. An instance is named as RoleIdentity::name() does, "actor-3".
using wire_atom = caf::atom_constant<caf::atom("wire")>;      // vector<Peer>: each replaces an earlier one of its edge
using unwire_atom = caf::atom_constant<caf::atom("unwire")>;  // EdgeId, bool: peer produces, uint32_t: its incarnation
using start_atom = caf::atom_constant<caf::atom("start")>;
using pause_atom = caf::atom_constant<caf::atom("pause")>;  // answered with `paused` between two steps
using resume_atom = caf::atom_constant<caf::atom("resume")>;
using save_atom = caf::atom_constant<caf::atom("save")>;  // while paused; answered with SavedMessage
using stop_atom = caf::atom_constant<caf::atom("stop")>;  // ends the instance; also runtime to chief and node: the run
using live_atom = caf::atom_constant<caf::atom("live")>;  // LiveRoles: which roles have an instance at work
using group_atom = caf::atom_constant<caf::atom("group")>;  // its seat has a new view; chief: string, role to regroup;
                                                            // node: instance, uint64_t, string: an epoch that broke

// Instance to its node. Each carries the instance's name.
using up_atom = caf::atom_constant<caf::atom("up")>;          // the role is made and restored
using done_atom = caf::atom_constant<caf::atom("done")>;      // its work is finished
using failed_atom = caf::atom_constant<caf::atom("failed")>;  // Failure; the instance ends right after
using paused_atom = caf::atom_constant<caf::atom("paused")>;
using saved_atom = caf::atom_constant<caf::atom("saved")>;    // SavedMessage
using status_atom = caf::atom_constant<caf::atom("status")>;  // asked: InstanceStatus; chief: the whole as JSON text

// Within one actor.
using step_atom = caf::atom_constant<caf::atom("step")>;        // go on stepping
using wake_atom = caf::atom_constant<caf::atom("wake")>;        // the time of wake_after() is reached
using report_atom = caf::atom_constant<caf::atom("report")>;    // a reporting period has passed
using expire_atom = caf::atom_constant<caf::atom("expire")>;    // calls' deadlines may have passed
using tick_atom = caf::atom_constant<caf::atom("tick")>;        // own timers
using retry_atom = caf::atom_constant<caf::atom("retry")>;      // back-off is over: restart an instance
using journal_atom = caf::atom_constant<caf::atom("journal")>;  // chief: try again to write the journal

// Between nodes and the chief, runtime and chief.
using control_atom = caf::atom_constant<caf::atom("control")>;  // string: node it comes from, messages::Control
using marker_atom = caf::atom_constant<caf::atom("marker")>;    // string: node it comes from, uint64_t: cut
using lost_atom =
    caf::atom_constant<caf::atom("lost")>;  // string, uint64_t: NetworkEvents::lost; string: NodeActor::lose()
using found_atom = caf::atom_constant<caf::atom("found")>;            // string, uint64_t: NetworkEvents::found
using checkpoint_atom = caf::atom_constant<caf::atom("checkpoint")>;  // runtime to chief: timespan, its patience
using write_atom = caf::atom_constant<caf::atom("write")>;            // node to its writer: Cut
using written_atom = caf::atom_constant<caf::atom("written")>;        // writer to its node: WrittenMessage
using keep_atom = caf::atom_constant<caf::atom("keep")>;  // node to its writer: vector<uint64_t>, cuts that are to stay
using check_atom = caf::atom_constant<caf::atom("check")>;          // node to its writer: PartNames; back: PartsChecked
using committed_atom = caf::atom_constant<caf::atom("committed")>;  // node to an instance: its last save counts
using ended_atom = caf::atom_constant<caf::atom("ended")>;          // chief or node to runtime: the run is over

/// Where an instance is: an actor of this node, or the name of another node.
struct Address {
  caf::actor actor;
  std::string node;
};

/// The other end of an edge.
struct Peer {
  EdgeId edge;
  bool produces = false;          ///< the peer is the producing (calling) end
  std::uint32_t incarnation = 0;  ///< of the peer
  Address address;
};

struct Failure {
  std::string instance;
  Error error;
};

/// All there is to an instance between two steps: the role's own state and what waits in its inlets.
struct InstanceState {
  RoleState role;
  std::vector<std::pair<EdgeId, messages::Frame>> waiting;  ///< in the order of arrival
};

struct SavedMessage {
  std::string instance;
  std::optional<Error> error;
  std::shared_ptr<const InstanceState> state;
};

/// What the instances of one node were at one moment; of all nodes together: the whole system.
struct Cut {
  std::uint64_t number = 0;
  struct Instance {
    std::string name;
    std::shared_ptr<const InstanceState> state;
  };
  std::vector<Instance> instances;
};

struct WrittenMessage {
  std::uint64_t number = 0;
  std::optional<Error> error;
  std::string part;                         ///< CutPart::id; empty: this node has none
  std::vector<std::string> instances;       ///< that it holds
  std::vector<messages::Counter> counters;  ///< "<instance>/<counter>", for whoever sums up the run
};

/// A node's parts of cuts: numbers and CutPart::id.
using PartNames = std::vector<std::pair<std::uint64_t, std::string>>;
struct PartsChecked {
  std::vector<std::uint64_t> whole;  ///< numbers of the parts that verify
  std::string wrong;                 ///< what is wrong with the others, in words
};

/// What an instance says about itself when asked.
struct InstanceStatus {
  std::string instance;
  bool paused = false;
  bool done = false;
  double idle_s = -1;         ///< < 0: at work
  std::string waits_for;      ///< the port that holds it up; empty: none
  std::string why;            ///< the role's own words: "limiter: 812 more inserts until min_size 1000"
  std::int64_t version = -1;  ///< newest "version" gauge of its report; -1: it has none
  struct PortStatus {
    std::string name;
    bool inlet = false;
    std::int64_t depth = 0;  ///< frames that wait (inlet) or are under way (outlet)
    std::int64_t frames = 0;
    std::int64_t bytes = 0;
    double waited_s = 0;
  };
  std::vector<PortStatus> ports;
};

/// Roles that have at least one instance that is up and not done.
using LiveRoles = std::shared_ptr<const std::vector<std::string>>;

struct CheckpointDone {
  std::optional<Error> error;
  std::vector<messages::Counter> counters;  ///< of all nodes
};

/// Sent to the runtime when the run is over: complete, stopped by an operator, or the error that ended it.
struct RunEnded {
  std::optional<Error> error;
  bool stopped = false;
};

}  // namespace troupe::actors

// These travel by value between actors of one process; nothing of this list is ever serialised by CAF.
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::EdgeId)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::FrameMessage)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::CreditMessage)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::CallMessage)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::AnswerMessage)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(std::vector<troupe::actors::Peer>)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::Failure)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::SavedMessage)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(std::shared_ptr<const troupe::actors::Cut>)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::WrittenMessage)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(std::vector<std::uint64_t>)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::PartNames)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::PartsChecked)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::InstanceStatus)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::LiveRoles)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::CheckpointDone)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::RunEnded)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::messages::Control)
