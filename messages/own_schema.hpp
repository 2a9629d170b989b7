#pragma once
// Frames of a user's own Cap'n Proto schema: how they are made, read and, where they come in from another node,
// checked. For the sources of whoever has such a schema; it sees Cap'n Proto, so no other header of Troupe includes it.
//
//   capnp_generate_cpp(sources headers reading.capnp)                        # in the user's CMakeLists.txt
//   mine.message("Reading", {.max_bytes = 4096, .check = messages::own_check<Reading>(good)});
//   const auto good = [](Reading::Reader reading) -> Status { ... };         // ranges, lengths, finite numbers
//
//   capnp::MallocMessageBuilder message;                                     // in the role that sends
//   message.initRoot<Reading>().setCelsius(21.5);
//   TROUPE_ASSIGN(Frame frame, messages::own_frame(context.pool(), message));
//
//   TROUPE_TRY(messages::read_own<Reading>(frame.bytes(), [&](Reading::Reader reading) -> Status { ... }));  // who
//   takes
#include <capnp/any.h>
#include <capnp/message.h>
#include <capnp/serialize.h>
#include <fmt/format.h>
#include <kj/exception.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <span>
#include <utility>

#include <troupe/core/error.hpp>
#include <troupe/messages/frame.hpp>
#include <troupe/messages/message_type.hpp>

namespace troupe::messages {

/// The message as a frame. Errors: those of the pool.
inline Result<Frame> own_frame(FramePool& pool, capnp::MessageBuilder& message) {
  const kj::Array<capnp::word> words = capnp::messageToFlatArray(message);
  const kj::ArrayPtr<const kj::byte> bytes = words.asBytes();
  return pool.copy(std::as_bytes(std::span(bytes.begin(), bytes.size())));
}

/// Opens bytes that may be anything as a message whose root is a `Root`, follows every pointer in it once, so that none
/// leads out of it, and hands it to `read(Root::Reader) -> Status`; what that takes along, it copies. A message costs
/// no more than a small multiple of its size, and at most 16 levels.
/// Errors: kCorrupt: no such message; those of `read`.
template <typename Root, typename Read>
Status read_own(std::span<const std::byte> bytes, Read read) {
  constexpr std::size_t kWord = sizeof(capnp::word);
  if (bytes.empty() || bytes.size() % kWord != 0) {
    return Error{Code::kCorrupt, fmt::format("got {} bytes, expected a multiple of {}", bytes.size(), kWord)};
  }
  const auto words =
      kj::arrayPtr(reinterpret_cast<const capnp::word*>(bytes.data()), bytes.size() / kWord);  // a frame is aligned
  try {
    capnp::ReaderOptions limits;
    limits.traversalLimitInWords = std::max<std::size_t>(4096, 4 * words.size());
    limits.nestingLimit = 16;
    capnp::FlatArrayMessageReader message(words, limits);
    if (message.getEnd() != words.end()) return Error{Code::kCorrupt, "the message is shorter than its frame"};
    message.getRoot<capnp::AnyStruct>().totalSize();  // which follows all pointers
    return read(message.getRoot<Root>());
  } catch (const kj::Exception& exception) {
    return Error{Code::kCorrupt, fmt::format("malformed: {}", exception.getDescription().cStr())};
  }
}

/// The check of a type with the schema `Root`, for Registry::message(): what read_own() checks, and then whatever
/// `content` says about the values. Null: any values will do.
template <typename Root>
MessageCheck own_check(std::function<Status(typename Root::Reader)> content = nullptr) {
  return [content = std::move(content)](std::span<const std::byte> bytes) {
    return read_own<Root>(
        bytes, [&content](typename Root::Reader root) { return content == nullptr ? Status() : content(root); });
  };
}

}  // namespace troupe::messages
