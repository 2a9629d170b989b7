#include <troupe/core/tf_record.hpp>

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>

#include <troupe/core/crc32c.hpp>

namespace troupe {
namespace {

static_assert(std::endian::native == std::endian::little, "TFRecords are little endian");

template <typename T>
std::string bytes_of(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

std::string checksum(std::string_view data) { return bytes_of(masked_crc32c(crc32c(std::as_bytes(std::span(data))))); }

}  // namespace

std::string tf_record(std::string_view data) {
  const std::string length = bytes_of(static_cast<std::uint64_t>(data.size()));
  return length + checksum(length) + std::string(data) + checksum(data);
}

}  // namespace troupe
