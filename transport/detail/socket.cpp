#include <troupe/transport/detail/socket.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace troupe::transport {

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

Status set_non_blocking(const Socket& socket) {
  const int flags = fcntl(socket.fd(), F_GETFL);
  if (flags >= 0 && fcntl(socket.fd(), F_SETFL, flags | O_NONBLOCK) == 0) return {};
  return Error{Code::kUnavailable, fmt::format("link: cannot use socket {}: {}", socket.fd(), std::strerror(errno))};
}

std::string to_string(const sockaddr& address, unsigned size) {
  char host[NI_MAXHOST], port[NI_MAXSERV];
  if ((address.sa_family != AF_INET && address.sa_family != AF_INET6) ||
      getnameinfo(&address, size, host, sizeof(host), port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "a local peer";
  }
  return address.sa_family == AF_INET6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

std::string peer_address(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  auto& base = reinterpret_cast<sockaddr&>(address);
  return getpeername(socket.fd(), &base, &size) == 0 ? to_string(base, size) : "a peer that is gone";
}

}  // namespace troupe::transport
