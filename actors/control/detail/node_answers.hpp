#pragma once
// What a node tells its chief of how something ended. Internal to node_actor.cpp and node_cuts.cpp.
#include <optional>

#include <troupe/core/error.hpp>
#include <troupe/messages/control.hpp>

namespace troupe::actors {

/// A message of `kind`, with the error if there was one.
inline messages::Control with_error(messages::ControlKind kind, const std::optional<Error>& error) {
  messages::Control control;
  control.kind = kind;
  if (error) {
    control.failed = true;
    control.code = error->code;
    control.text = error->message;
  }
  return control;
}

}  // namespace troupe::actors
