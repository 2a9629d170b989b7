#include <troupe/core/crc32c.hpp>

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace troupe {
namespace {

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0u);  // reflected polynomial
    table[i] = crc;
  }
  return table;
}
constexpr auto kTable = make_table();

std::uint32_t extend_portable(std::uint32_t crc, const std::byte* data, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) {
    crc = kTable[(crc ^ std::to_integer<std::uint32_t>(data[i])) & 0xff] ^ (crc >> 8);
  }
  return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t extend_sse42(std::uint32_t crc, const std::byte* data,
                                                             std::size_t size) {
  std::uint64_t wide = crc;
  for (; size >= 8; size -= 8, data += 8) {
    std::uint64_t word;
    std::memcpy(&word, data, sizeof(word));
    wide = _mm_crc32_u64(wide, word);
  }
  return extend_portable(static_cast<std::uint32_t>(wide), data, size);
}
#endif

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc) {
#if defined(__x86_64__)
  static const bool kHardware = __builtin_cpu_supports("sse4.2") != 0;
  if (kHardware) return ~extend_sse42(~crc, bytes.data(), bytes.size());
#endif
  return ~extend_portable(~crc, bytes.data(), bytes.size());
}

}  // namespace troupe
