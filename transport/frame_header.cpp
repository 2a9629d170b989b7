#include <troupe/transport/frame_header.hpp>

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include <troupe/core/crc32c.hpp>

namespace troupe::transport {
namespace {

static_assert(std::endian::native == std::endian::little, "headers are copied as they are");

constexpr std::uint16_t kMagic = 0x5254;  // "TR"
constexpr std::size_t kCheckedBytes = 12;

std::uint32_t limit_of(FrameKind kind, const FrameLimits& limits) {
  switch (kind) {
    case FrameKind::kData:
      return limits.data_bytes;
    case FrameKind::kControl:
      return limits.control_bytes;
    case FrameKind::kWelcome:
    case FrameKind::kRefusal:
      return kWelcomeBytesMax;
  }
  return 0;
}

template <typename T>
T load(std::span<const std::byte> bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

Error corrupt(std::string message) { return Error{Code::kCorrupt, "link: " + std::move(message)}; }

}  // namespace

Result<FrameHeaderBytes> encode_header(const FrameHeader& header, const FrameLimits& limits) {
  if (header.length > limit_of(header.kind, limits)) {
    return Error{Code::kInvalidArgument,
                 fmt::format("link: frame of {} bytes exceeds limit {}", header.length, limit_of(header.kind, limits))};
  }
  FrameHeaderBytes bytes;
  std::memcpy(bytes.data(), &kMagic, 2);
  bytes[2] = static_cast<std::byte>(kHeaderVersion);
  bytes[3] = static_cast<std::byte>(header.kind);
  std::memcpy(bytes.data() + 4, &header.length, 4);
  std::memcpy(bytes.data() + 8, &header.sequence, 4);
  const std::uint32_t crc = crc32c(std::span(bytes).first(kCheckedBytes));
  std::memcpy(bytes.data() + kCheckedBytes, &crc, 4);
  return bytes;
}

Result<FrameHeader> decode_header(std::span<const std::byte, kFrameHeaderBytes> bytes, const FrameLimits& limits,
                                  std::uint32_t expected_sequence) {
  if (load<std::uint16_t>(bytes, 0) != kMagic) {
    return corrupt(fmt::format("not a Troupe frame (first bytes {:02x} {:02x} {:02x} {:02x})",
                               load<std::uint8_t>(bytes, 0), load<std::uint8_t>(bytes, 1), load<std::uint8_t>(bytes, 2),
                               load<std::uint8_t>(bytes, 3)));
  }
  const std::uint32_t crc = crc32c(bytes.first<kCheckedBytes>());
  if (const auto stated = load<std::uint32_t>(bytes, kCheckedBytes); stated != crc) {
    return corrupt(fmt::format("header checksum is {:08x}, expected {:08x}", stated, crc));
  }
  if (const auto version = load<std::uint8_t>(bytes, 2); version != kHeaderVersion) {
    return Error{Code::kCorrupt, fmt::format("TRP-E160 peer speaks frame format {}, this node {}: upgrade one of them",
                                             version, kHeaderVersion)};
  }
  const auto kind = load<std::uint8_t>(bytes, 3);
  if (kind > static_cast<std::uint8_t>(FrameKind::kRefusal)) return corrupt(fmt::format("unknown frame kind {}", kind));
  const FrameHeader header{static_cast<FrameKind>(kind), load<std::uint32_t>(bytes, 4), load<std::uint32_t>(bytes, 8)};
  if (header.length > limit_of(header.kind, limits)) {
    return Error{Code::kCorrupt, fmt::format("TRP-S703 frame of {} bytes exceeds limit {}", header.length,
                                             limit_of(header.kind, limits))};
  }
  if (header.sequence != expected_sequence) {
    return corrupt(fmt::format("frame number {}, expected {}", header.sequence, expected_sequence));
  }
  return header;
}

}  // namespace troupe::transport
