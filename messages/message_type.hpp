#pragma once
// The types that a channel may carry. A port names its type; what ships is known by its schema, and what a user sends
// over channels of their own is registered: by a name, a bound and, if it has a schema, a check. Between nodes a frame
// is let in only if its channel's type is known and the frame passes (actors/network/authorization.hpp): deny by
// default, as for everything that comes from outside.
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/messages/frame.hpp>

namespace troupe::messages {

/// Looks at bytes from another node, which may be anything, and says what is wrong with them. They start at a multiple
/// of 64. Called on the network's threads, several at once: it must not block, keep state or throw. For a Cap'n Proto
/// schema, messages/own_schema.hpp makes it.
using MessageCheck = std::function<Status(std::span<const std::byte> bytes)>;

/// What a registered type may be at most. Larger data is better cut up: a channel's memory is capacity x size.
inline constexpr std::size_t kMaxOwnMessageBytes = std::size_t{64} << 20;

struct MessageType {
  std::string name;  ///< as ports have it: "Celsius"
  /// Frames of more bytes are refused where they are sent and where they come in; so are empty ones.
  std::size_t max_bytes = std::size_t{1} << 20;
  /// Null: opaque. Nobody looks at the bytes before the role that takes them, which must believe nothing of them.
  MessageCheck check = nullptr;

  bool opaque() const { return check == nullptr; }
};

/// A name that a type may have: 1 .. 64 letters and digits, a capital letter first. Errors: kInvalidArgument;
/// kAlreadyExists for the name of a type that ships.
Status check_type_name(std::string_view name);

/// Whether this is the name of a message of ours, whoever sends it.
bool is_kind_name(std::string_view name);
/// Whether a port of a user's may carry this type of ours: those that travel on channels. What chief and nodes say to
/// each other, and what is only stored, is none of them.
bool is_shipped_type(std::string_view name);
/// All of those, sorted.
std::vector<std::string> shipped_type_names();

/// Whether a frame of this type may be so long. Errors: kInvalidArgument.
Status check_size(const MessageType& type, const Frame& frame);
/// check_size(), and what the type's own check says. Errors: those of both.
Status check_message(const MessageType& type, const Frame& frame);

}  // namespace troupe::messages
