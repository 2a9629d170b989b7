#pragma once
// Every message that passes between actors, and who understands it. Two kinds: frames (data; the content is a Cap'n
// Proto message, see messages/) with the credits that bound them, and control between the supervisor and the instances
// of roles. Included by the actors only: it pulls in CAF.
//
//   producer --frame--> consumer     consumer --credit--> producer          stream and latest channels
//   caller --call--> server          server --answer--> caller              request channels
//   supervisor --wire, rewire, start, pause, resume, save, stop--> instance
//   instance --done, failed, paused, saved--> supervisor
//   runtime --checkpoint--> checkpointer --cut--> supervisor --> back the same way
//
// Ordering: between two actors messages keep their order. So once every instance has answered `pause`, each frame that
// was sent lies in its consumer, and `save` sees a consistent cut.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <caf/all.hpp>

#include <troupe/actors/role.hpp>
#include <troupe/core/error.hpp>
#include <troupe/messages/frame.hpp>

namespace troupe::actors {

// Data.
using frame_atom = caf::atom_constant<caf::atom("frame")>;    // FrameMessage
using credit_atom = caf::atom_constant<caf::atom("credit")>;  // EdgeId: one frame of the edge was taken
using call_atom = caf::atom_constant<caf::atom("call")>;      // CallMessage
using answer_atom = caf::atom_constant<caf::atom("answer")>;  // AnswerMessage

// Control, supervisor to instance.
using wire_atom = caf::atom_constant<caf::atom("wire")>;      // Wiring: all edges of the instance; before start
using rewire_atom = caf::atom_constant<caf::atom("rewire")>;  // EdgeId, actor: the peer was restarted
using start_atom = caf::atom_constant<caf::atom("start")>;
using pause_atom = caf::atom_constant<caf::atom("pause")>;  // answered with `paused` between two steps
using resume_atom = caf::atom_constant<caf::atom("resume")>;
using save_atom = caf::atom_constant<caf::atom("save")>;  // while paused; answered with InstanceState
using stop_atom = caf::atom_constant<caf::atom("stop")>;  // ends the instance

// Control, instance to supervisor.
using done_atom = caf::atom_constant<caf::atom("done")>;      // instance number
using failed_atom = caf::atom_constant<caf::atom("failed")>;  // Failure; the instance ends right after
using paused_atom = caf::atom_constant<caf::atom("paused")>;  // instance number
using saved_atom = caf::atom_constant<caf::atom("saved")>;    // SavedMessage

// Within one actor.
using step_atom = caf::atom_constant<caf::atom("step")>;      // go on stepping
using wake_atom = caf::atom_constant<caf::atom("wake")>;      // the time of wake_after() is reached
using report_atom = caf::atom_constant<caf::atom("report")>;  // a reporting period has passed
using expire_atom = caf::atom_constant<caf::atom("expire")>;  // calls' deadlines may have passed
using tick_atom = caf::atom_constant<caf::atom("tick")>;      // the supervisor's own timers
using retry_atom = caf::atom_constant<caf::atom("retry")>;    // back-off is over: restart an instance

// Between runtime, checkpointer and supervisor.
using checkpoint_atom = caf::atom_constant<caf::atom("checkpoint")>;  // runtime to checkpointer: one now
using cut_atom = caf::atom_constant<caf::atom("cut")>;      // checkpointer to supervisor: answered with CutMessage
using ended_atom = caf::atom_constant<caf::atom("ended")>;  // the run is over

/// One pair of instances of one channel.
struct EdgeId {
  std::uint32_t channel = 0;   ///< index in Topology::channels; kReportChannel for reports
  std::uint32_t producer = 0;  ///< instance index of the producing (calling) role
  std::uint32_t consumer = 0;  ///< instance index of the consuming (serving) role

  friend bool operator==(const EdgeId&, const EdgeId&) = default;
};
/// Reports travel like frames of a channel, but every instance has such an edge without declaring it.
inline constexpr std::uint32_t kReportChannel = 0xffffffff;

struct FrameMessage {
  EdgeId edge;
  messages::Frame frame;
};

struct CallMessage {
  EdgeId edge;
  std::uint64_t ticket = 0;  ///< the caller's number for the call
  messages::Frame frame;
};

struct AnswerMessage {
  EdgeId edge;
  std::uint64_t ticket = 0;
  std::optional<Error> error;  ///< set when there is no answer
  messages::Frame frame;
};

/// The other end of an edge.
struct Peer {
  EdgeId edge;
  std::string port;  ///< name of this instance's port that the edge belongs to
  caf::actor actor;
};

struct Wiring {
  std::vector<Peer> producers;  ///< this instance consumes (serves) from these
  std::vector<Peer> consumers;  ///< this instance produces (calls) to these
};

struct Failure {
  std::uint32_t instance = 0;  ///< number in the supervisor's list
  Error error;
};

/// All there is to an instance between two steps: the role's own state and what waits in its inlets.
struct InstanceState {
  RoleState role;
  std::vector<std::pair<EdgeId, messages::Frame>> waiting;  ///< in the order of arrival
};

struct SavedMessage {
  std::uint32_t instance = 0;
  std::optional<Error> error;
  std::shared_ptr<const InstanceState> state;
};

/// The whole system at one moment, by instance number.
struct Cut {
  std::vector<std::shared_ptr<const InstanceState>> instances;
};

struct CutMessage {
  std::optional<Error> error;
  std::shared_ptr<const Cut> cut;
};

struct CheckpointDone {
  std::optional<Error> error;
};

}  // namespace troupe::actors

// These travel by value between actors of one process. What goes to other nodes is the frames' content, on the link;
// nothing of this list is ever serialised by CAF.
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::EdgeId)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::FrameMessage)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::CallMessage)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::AnswerMessage)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::Wiring)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::Failure)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::SavedMessage)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::CutMessage)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::CheckpointDone)
