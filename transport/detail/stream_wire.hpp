#pragma once
// The frames of a stream: control frames in both directions, and one data frame for each message. Little endian.
//   hello   sender -> receiver, first   u8 1, session 16, first u64, to u64, name (the rest)
//   resume  receiver -> sender, first   u8 2, receiver 16, delivered u64
//   ack     receiver -> sender          u8 3, delivered u64
//   refusal receiver -> sender, first   u8 4, code u8, text (the rest): instead of a resume
//   data    sender -> receiver          number u64, head 64, body (the rest)
// A number counts the messages of a session from 1; `delivered` is the number of the last one that was delivered.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/transport/stream.hpp>

namespace troupe::transport {

struct StreamResume {
  StreamId receiver{};  ///< this life of the receiver
  std::uint64_t delivered = 0;
};

/// What stands before the body of a message.
struct StreamPrefix {
  std::uint64_t number = 0;
  StreamHead head{};
};
inline constexpr std::size_t kStreamPrefixBytes = sizeof(StreamPrefix);
static_assert(kStreamPrefixBytes == 72, "it travels as it is");

inline constexpr std::size_t kMaxStreamName = 255;
inline constexpr std::size_t kMaxRefusal = 1024;

std::vector<std::byte> encode(const StreamHello& hello);
std::vector<std::byte> encode(const StreamResume& resume);
std::vector<std::byte> encode_ack(std::uint64_t delivered);
/// A longer text is cut off.
std::vector<std::byte> encode_refusal(const Error& reason);

/// Errors: kCorrupt: another kind of frame, or of another size. A refusal in place of the resume is its error.
Result<StreamHello> decode_hello(const ReceivedFrame& frame);
Result<StreamResume> decode_resume(const ReceivedFrame& frame);
Result<std::uint64_t> decode_ack(const ReceivedFrame& frame);

/// Nobody else's, in any process. Errors: kUnavailable when the system has no random numbers.
Result<StreamId> random_stream_id();

}  // namespace troupe::transport
