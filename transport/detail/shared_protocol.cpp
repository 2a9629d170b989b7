#include <troupe/transport/detail/shared_protocol.hpp>

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

namespace troupe::transport {

Result<std::string> host_identity() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::string identity = boot;
  for (const char* const space : {"net", "pid", "mnt"}) {
    struct stat status {};
    if (boot.empty() || stat(fmt::format("/proc/self/ns/{}", space).c_str(), &status) != 0) {
      return Error{Code::kIo, "shared memory: cannot read the identity of this host from /proc"};
    }
    identity += fmt::format("/{}{}", space, status.st_ino);
  }
  return identity;
}

bool same_machine(std::string_view one, std::string_view other) {
  return one.substr(0, one.find('/')) == other.substr(0, other.find('/'));
}

bool token_matches(const Token& token, std::string_view secret, std::size_t from) {
  return secret.size() >= from + token.size() && CRYPTO_memcmp(token.data(), secret.data() + from, token.size()) == 0;
}

Mapping::Mapping(int fd, std::size_t bytes, int protection) {
  void* const mapped = mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) return;
  data_ = static_cast<std::byte*>(mapped);
  size_ = bytes;
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Mapping::~Mapping() {
  if (data_ != nullptr) munmap(data_, size_);
}

}  // namespace troupe::transport
