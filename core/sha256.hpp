#pragma once
// SHA-256 (FIPS 180-4) by OpenSSL's libcrypto: checkpoint manifests and config hashes.
#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace troupe {

/// A running hash. Feed any number of pieces, then ask once.
class Sha256 {
 public:
  using Digest = std::array<std::byte, 32>;

  Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  ~Sha256();

  void update(std::span<const std::byte> bytes);
  /// The digest of everything fed so far. The object must not be fed afterwards.
  Digest finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

/// 64 lower-case hexadecimal digits.
std::string to_hex(const Sha256::Digest& digest);
/// The same of one piece.
std::string sha256_hex(std::span<const std::byte> bytes);

}  // namespace troupe
