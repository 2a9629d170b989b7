#pragma once
// TFRecords for the tests, as TensorFlow's ImageNet scripts write them.
#include <cstdint>
#include <string>
#include <string_view>

#include <troupe/core/crc32c.hpp>
#include <troupe/tests/data/write_idx.hpp>

namespace troupe::data::testing {

inline std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

/// A field of a protobuf message that holds bytes.
inline std::string field(std::uint64_t number, std::string_view bytes) {
  return varint(number << 3 | 2) + varint(bytes.size()) + std::string(bytes);
}

inline std::string feature(std::string_view name, std::string_view value) {
  return field(1, field(1, name) + field(2, value));  // an entry of Features.feature
}

inline std::string bytes_feature(std::string_view name, std::string_view value) {
  return feature(name, field(1, field(1, value)));
}

inline std::string int64_feature(std::string_view name, std::uint64_t value) {
  return feature(name, field(3, field(1, varint(value))));  // packed, as protobuf's version 3 writes it
}

inline std::string text(const Bytes& bytes) { return {bytes.begin(), bytes.end()}; }

/// With features besides, some before, some after, as the scripts write them.
inline std::string example(const Bytes& encoded, std::uint64_t label) {
  return field(1, bytes_feature("image/class/synset", "n01440764") + int64_feature("image/class/label", label) +
                      bytes_feature("image/encoded", text(encoded)) + int64_feature("image/height", 375));
}

inline std::string record(std::string_view data) {
  const auto le = [](std::uint64_t value, int bytes) {
    std::string out;
    for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
    return out;
  };
  const auto checksum = [&](std::string_view of) {
    return le(masked_crc32c(crc32c(std::as_bytes(std::span(of.data(), of.size())))), 4);
  };
  const std::string length = le(data.size(), 8);
  return length + checksum(length) + std::string(data) + checksum(data);
}

inline void write(const std::filesystem::path& file, const std::string& bytes) {
  write(file, Bytes(bytes.begin(), bytes.end()));
}

}  // namespace troupe::data::testing
