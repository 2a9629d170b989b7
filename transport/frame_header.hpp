#pragma once
// The 16 bytes before every frame on a link. They are checked completely before one byte is allocated for what they
// announce. Little endian: magic u16, version u8, kind u8, length u32, sequence u32, CRC-32C of the 12 bytes before
// u32. The payload needs no checksum here: TLS authenticates it.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <troupe/core/error.hpp>

namespace troupe::transport {

/// What a frame is to the link. Control has its own, small limit; it travels on a connection of its own, so that it
/// never waits behind bulk.
enum class FrameKind : std::uint8_t {
  kData = 0,     ///< a message for a channel; the link does not look inside
  kControl = 1,  ///< membership, credits, heartbeats; the link does not look inside
  kWelcome = 2,  ///< the first frame each way: the peer is let in, and the protocols that this node speaks (link.hpp)
  kRefusal = 3,  ///< the first and last frame instead: why it is not, as text
};

struct FrameHeader {
  FrameKind kind = FrameKind::kData;
  std::uint32_t length = 0;    ///< bytes of payload that follow
  std::uint32_t sequence = 0;  ///< counts the frames of one direction of a connection from 0, modulo 2^32
};

/// Longest payload by kind; a longer one ends the connection.
struct FrameLimits {
  std::uint32_t data_bytes = 256u << 20;
  std::uint32_t control_bytes = 1u << 20;
};

inline constexpr std::size_t kFrameHeaderBytes = 16;
/// Of these 16 bytes and the welcome. It changes only if the two must, because peers that differ in it cannot even say
/// which protocols they speak.
inline constexpr std::uint8_t kHeaderVersion = 1;
inline constexpr std::uint32_t kWelcomeBytesMax = 256;

/// The protocols that a node speaks: what frames mean after the welcome. Peers need one in common.
struct ProtocolRange {
  std::uint16_t oldest = 1;
  std::uint16_t newest = 1;
};

using FrameHeaderBytes = std::array<std::byte, kFrameHeaderBytes>;

/// Errors: kInvalidArgument when the length is above the limit of the kind.
Result<FrameHeaderBytes> encode_header(const FrameHeader& header, const FrameLimits& limits);

/// Errors: kCorrupt: not Troupe's magic (the first bytes are shown), another version, checksum, unknown kind, length
/// above the limit, or a sequence other than expected (lost, repeated or reordered frames).
Result<FrameHeader> decode_header(std::span<const std::byte, kFrameHeaderBytes> bytes, const FrameLimits& limits,
                                  std::uint32_t expected_sequence);

}  // namespace troupe::transport
