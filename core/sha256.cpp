#include <troupe/core/sha256.hpp>

#include <openssl/evp.h>

#include <troupe/core/check.hpp>

namespace troupe {

struct Sha256::Context {
  Context() : evp(EVP_MD_CTX_new()) {
    TROUPE_CHECK(evp != nullptr && EVP_DigestInit_ex(evp, EVP_sha256(), nullptr) == 1,
                 "libcrypto cannot start SHA-256");
  }
  ~Context() { EVP_MD_CTX_free(evp); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  EVP_MD_CTX* evp;
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {}
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;
Sha256::~Sha256() = default;

void Sha256::update(std::span<const std::byte> bytes) {
  TROUPE_CHECK(EVP_DigestUpdate(context_->evp, bytes.data(), bytes.size()) == 1, "libcrypto failed to hash");
}

Sha256::Digest Sha256::finish() {
  Digest digest;
  unsigned int size = 0;
  TROUPE_CHECK(EVP_DigestFinal_ex(context_->evp, reinterpret_cast<unsigned char*>(digest.data()), &size) == 1 &&
                   size == digest.size(),
               "libcrypto failed to finish SHA-256");
  return digest;
}

std::string to_hex(const Sha256::Digest& digest) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * digest.size());
  for (std::byte byte : digest) {
    text += kDigits[std::to_integer<unsigned>(byte) >> 4];
    text += kDigits[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

std::string sha256_hex(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return to_hex(hash.finish());
}

}  // namespace troupe
