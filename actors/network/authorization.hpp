#pragma once
// What a node may send, by the roles in its certificate: deny by default. For data the table is the topology itself: a
// channel's frames come from nodes of its producing role and are of its ports' type, its credits from nodes of its
// consuming role; what collectives say comes from nodes of the group's role. For control it is the short table in the
// .cpp, and a node speaks only of instances of its own roles. The chief says which instances of a role a node may speak
// for (routes.hpp, chief_actor.hpp). The network asks here about everything that comes in.
#include <string>

#include <troupe/actors/runtime/remote.hpp>
#include <troupe/actors/runtime/topology.hpp>
#include <troupe/core/error.hpp>
#include <troupe/transport/identity.hpp>

namespace troupe::actors {

/// The role of those who may ask for the status and for the end, and for nothing else.
inline constexpr const char* kOperatorRole = "operator";

/// `to_chief`: the receiver is the chief. `topology` has passed check(). Errors: kInvalidArgument: "TRP-S711 node env-3
/// (roles actor) may not send frames on learner.updates -> parameters.updates". The message is then dropped and
/// counted; the connection stays. A frame that does not pass its registered type's check: "TRP-S706 from env-3: frames
/// on thermometer.celsius -> display.celsius: Celsius: got 9 bytes, expected 1 .. 8".
Status may_send(const Topology& topology, const transport::Identity& sender, bool to_chief,
                const RemoteMessage& message);

}  // namespace troupe::actors
