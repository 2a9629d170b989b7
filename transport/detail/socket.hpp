#pragma once
// A socket that closes itself, and what its ends are called. Internal to transport/.
#include <string>
#include <utility>

#include <troupe/core/error.hpp>

struct sockaddr;

namespace troupe::transport {

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&&) = delete;
  ~Socket();

  int fd() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

/// Errors: kUnavailable: not an open socket.
Status set_non_blocking(const Socket& socket);

/// "10.0.0.9:4123", "[fe80::1]:4123", or "a local peer".
std::string to_string(const sockaddr& address, unsigned size);
std::string peer_address(const Socket& socket);

}  // namespace troupe::transport
