#pragma once
// CRC-32C (Castagnoli, RFC 3720 appendix B.4): TensorBoard records, checkpoint chunks and link headers. Finds torn and
// flipped bytes; says nothing against somebody who wants to deceive (that is SHA-256 or TLS).
#include <cstddef>
#include <cstdint>
#include <span>

namespace troupe {

/// The checksum of `bytes` appended to what `crc` already covers (0: nothing). Uses SSE 4.2 where the processor has it.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc = 0);

/// TensorFlow's masked form: a checksum stored beside data that holds checksums must not look like one
/// (tensorflow/core/lib/hash/crc32c.h).
constexpr std::uint32_t masked_crc32c(std::uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

}  // namespace troupe
