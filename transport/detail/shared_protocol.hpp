#pragma once
// What the two ends of shared_memory.hpp say to each other on their Unix socket: one packet of one struct each. Private
// to transport/.
#include <sys/mman.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <troupe/transport/shared_memory.hpp>

namespace troupe::transport {

/// Half of an offer's secret.
using Token = std::array<std::byte, 32>;

/// Receiver to sender, once: the first half.
struct Hello {
  Token token;
};

/// Sender to receiver, once, with the memory's descriptor: the second half.
struct Welcome {
  Token token;
  std::uint64_t memory = 0;
};

/// Receiver to sender: nobody reads the payload any more.
struct Release {
  std::uint64_t sequence = 0;
};

template <typename T>
std::span<std::byte> bytes_of(T& packet) {
  return std::as_writable_bytes(std::span(&packet, 1));
}

/// The half of `secret` from byte `from` on equals `token`; in the same time wherever they differ.
bool token_matches(const Token& token, std::string_view secret, std::size_t from);

/// Another process's memory, mapped into this one until the object is gone.
class Mapping {
 public:
  Mapping() = default;
  Mapping(int fd, std::size_t bytes, int protection);
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();
  /// False when the system refused, with the reason in errno.
  explicit operator bool() const { return data_ != nullptr; }
  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace troupe::transport
