#pragma once
// Writes protobuf's wire format (protobuf.dev/programming-guides/encoding) by field numbers: what ONNX files and
// TensorBoard's events need of it, without a compiler of .proto files and its library.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace troupe {

/// One message, field by field in the order of the calls. Messages within it are written apart and added whole.
class ProtoWriter {
 public:
  void add_int(int field, std::int64_t value) {
    tag(field, kVarint);
    varint(static_cast<std::uint64_t>(value));
  }
  void add_float(int field, float value) {
    tag(field, kFixed32);
    fixed(std::bit_cast<std::uint32_t>(value));
  }
  void add_double(int field, double value) {
    tag(field, kFixed64);
    fixed(std::bit_cast<std::uint64_t>(value));
  }
  void add_string(int field, std::string_view value) {
    tag(field, kLengthDelimited);
    varint(value.size());
    bytes_.append(value);
  }
  void add_bytes(int field, std::span<const std::byte> value) {
    add_string(field, {reinterpret_cast<const char*>(value.data()), value.size()});
  }
  void add_message(int field, const ProtoWriter& message) { add_string(field, message.bytes_); }

  const std::string& bytes() const { return bytes_; }

 private:
  enum WireType : unsigned { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

  void tag(int field, WireType type) { varint(static_cast<std::uint64_t>(field) << 3 | type); }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>(value | 0x80));
    bytes_.push_back(static_cast<char>(value));
  }

  template <typename Bits>
  void fixed(Bits bits) {
    for (std::size_t i = 0; i < sizeof(Bits); ++i) bytes_.push_back(static_cast<char>(bits >> (8 * i) & 0xff));
  }

  std::string bytes_;
};

}  // namespace troupe
