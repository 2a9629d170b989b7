#pragma once
// How a RemoteMessage stands in the head of a stream's message (transport/stream.hpp), 64 bytes that lie beside the
// frame, so that the frame itself travels as it is. Internal to node_network.cpp.
//   type u8, flags u8, code u16, channel, producer, consumer (of a group: role, from, to), producer incarnation,
//   consumer incarnation u32, number u64 (ticket; cut; credits and taken), shared memory reference 32
#include <array>
#include <cstdint>
#include <string>

#include <troupe/actors/runtime/remote.hpp>
#include <troupe/core/error.hpp>
#include <troupe/transport/shared_memory.hpp>
#include <troupe/transport/stream.hpp>

namespace troupe::actors {

/// Makes the head of `message`; its frame, if it has one, goes to `frame`, the text of its error to `error_text`. The
/// caller makes the body of a control message.
transport::StreamHead pack_head(const RemoteMessage& message, messages::Frame& frame, std::string& error_text);

void set_reference(transport::StreamHead& head, const transport::SharedReference& reference);
bool has_reference(const transport::StreamHead& head);
transport::SharedReference reference_of(const transport::StreamHead& head);

/// The opposite of pack_head(), with the body that came. Errors: kCorrupt: an unknown type or code, flags of another
/// type, a body where there must be none or none where there must be one; those of read_control().
Result<RemoteMessage> unpack_message(const transport::StreamMessage& message);

/// An offer of shared memory is a message of the network itself.
transport::StreamHead offer_head();
bool is_offer(const transport::StreamHead& head);
std::string pack_offer(const transport::SharedOffer& offer);
Result<transport::SharedOffer> unpack_offer(std::span<const std::byte> body);

}  // namespace troupe::actors
