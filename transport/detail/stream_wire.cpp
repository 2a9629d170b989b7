#include <troupe/transport/detail/stream_wire.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include <troupe/core/text.hpp>

namespace troupe::transport {
namespace {

enum class Type : std::uint8_t { kHello = 1, kResume = 2, kAck = 3, kRefusal = 4 };

/// One record on a connection that has carried nothing yet: it fits into the system's buffer.
constexpr Duration kRefusalTimeout = std::chrono::milliseconds(50);

/// Writes one value after the other into a frame of known size.
class Writer {
 public:
  Writer(Type type, std::size_t size) : bytes_(1 + size) { bytes_[0] = static_cast<std::byte>(type); }

  Writer& raw(const void* data, std::size_t size) {
    std::memcpy(bytes_.data() + at_, data, size);
    at_ += size;
    return *this;
  }
  template <typename T>
  Writer& value(const T& value) {
    return raw(&value, sizeof(value));
  }
  std::vector<std::byte> done() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
  std::size_t at_ = 1;
};

template <typename T>
T take(std::span<const std::byte>& bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(value));
  bytes = bytes.subspan(sizeof(value));
  return value;
}

/// What follows the type, from `least` to `most` bytes.
Result<std::span<const std::byte>> body_of(const ReceivedFrame& frame, Type type, std::size_t least, std::size_t most) {
  const auto bytes = frame.payload;
  if (frame.kind != FrameKind::kControl || bytes.empty() || bytes[0] != static_cast<std::byte>(type) ||
      bytes.size() - 1 < least || bytes.size() - 1 > most) {
    return Error{Code::kCorrupt,
                 fmt::format("stream: a frame of kind {}, {} bytes, expected a control frame of type {}",
                             static_cast<int>(frame.kind), bytes.size(), static_cast<int>(type))};
  }
  return bytes.subspan(1);
}

}  // namespace

std::vector<std::byte> encode(const StreamHello& hello) {
  return Writer(Type::kHello, 32 + hello.name.size())
      .value(hello.session)
      .value(hello.first)
      .value(hello.to)
      .raw(hello.name.data(), hello.name.size())
      .done();
}

std::vector<std::byte> encode(const StreamResume& resume) {
  return Writer(Type::kResume, 24).value(resume.receiver).value(resume.delivered).done();
}

std::vector<std::byte> encode_ack(std::uint64_t delivered) { return Writer(Type::kAck, 8).value(delivered).done(); }

std::vector<std::byte> encode_refusal(const Error& reason) {
  const std::size_t size = std::min(reason.message.size(), kMaxRefusal);
  return Writer(Type::kRefusal, 1 + size)
      .value(static_cast<std::uint8_t>(reason.code))
      .raw(reason.message.data(), size)
      .done();
}

Result<StreamHello> decode_hello(const ReceivedFrame& frame) {
  TROUPE_ASSIGN(auto bytes, body_of(frame, Type::kHello, 32, 32 + kMaxStreamName));
  StreamHello hello;
  hello.session = take<StreamId>(bytes);
  hello.first = take<std::uint64_t>(bytes);
  hello.to = take<std::uint64_t>(bytes);
  hello.name.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (hello.first == 0) return Error{Code::kCorrupt, "stream: a hello that begins with message 0, expected 1 or more"};
  return hello;
}

Result<StreamResume> decode_resume(const ReceivedFrame& frame) {
  if (auto refusal = body_of(frame, Type::kRefusal, 1, 1 + kMaxRefusal); refusal.ok()) {
    const auto code = take<std::uint8_t>(*refusal);
    const std::string text(reinterpret_cast<const char*>(refusal->data()), refusal->size());
    return Error{code <= static_cast<std::uint8_t>(kLastCode) ? static_cast<Code>(code) : Code::kCorrupt,
                 printable(text)};
  }
  TROUPE_ASSIGN(auto bytes, body_of(frame, Type::kResume, 24, 24));
  StreamResume resume;
  resume.receiver = take<StreamId>(bytes);
  resume.delivered = take<std::uint64_t>(bytes);
  return resume;
}

Result<std::uint64_t> decode_ack(const ReceivedFrame& frame) {
  TROUPE_ASSIGN(auto bytes, body_of(frame, Type::kAck, 8, 8));
  return take<std::uint64_t>(bytes);
}

Result<StreamId> random_stream_id() {
  StreamId id;
  if (::getentropy(id.data(), id.size()) == 0) return id;
  return Error{Code::kUnavailable, fmt::format("stream: no random numbers: {}", std::strerror(errno))};
}

Status send_hello(Link& link, const StreamHello& hello, Duration timeout) {
  return link.send(FrameKind::kControl, encode(hello), timeout);
}

void send_refusal(Link& link, const Error& reason) {
  (void)link.send(FrameKind::kControl, encode_refusal(reason), kRefusalTimeout);
}

Result<StreamHello> receive_hello(Link& link, Duration timeout) {
  TROUPE_ASSIGN(const ReceivedFrame frame, link.receive(timeout));
  return decode_hello(frame);
}

}  // namespace troupe::transport
