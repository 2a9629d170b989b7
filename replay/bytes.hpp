#pragma once
// Little-endian fields one after the other: how replay's parts write their state for checkpoints. A reader never goes
// past its end: it remembers that it would have, and its owner asks once, at the end.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace troupe::replay {

static_assert(std::endian::native == std::endian::little, "fields are copied as they lie in memory");

class ByteWriter {
 public:
  template <typename T>
  void put(const T& value) {
    static_assert(std::is_arithmetic_v<T>, "only numbers have a portable layout");
    put_bytes(std::as_bytes(std::span(&value, 1)));
  }
  void put_bytes(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  void put_string(std::string_view text) {
    put(static_cast<std::uint32_t>(text.size()));
    put_bytes(std::as_bytes(std::span(text)));
  }
  void reserve(std::size_t bytes) { bytes_.reserve(bytes); }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  /// T{} once the bytes have run out.
  template <typename T>
  T get() {
    static_assert(std::is_arithmetic_v<T>, "only numbers have a portable layout");
    T value{};
    const auto bytes = get_bytes(sizeof(T));
    if (bytes.size() == sizeof(T)) std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
  /// Empty once the bytes have run out.
  std::span<const std::byte> get_bytes(std::size_t count) {
    if (count > rest_.size()) {
      ok_ = false;
      rest_ = {};
      return {};
    }
    const auto bytes = rest_.first(count);
    rest_ = rest_.subspan(count);
    return bytes;
  }
  std::string get_string() {
    const auto bytes = get_bytes(get<std::uint32_t>());
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  std::size_t remaining() const { return rest_.size(); }
  /// Everything was there, and nothing is left over.
  bool finished() const { return ok_ && rest_.empty(); }
  bool ok() const { return ok_; }

 private:
  std::span<const std::byte> rest_;
  bool ok_ = true;
};

}  // namespace troupe::replay
