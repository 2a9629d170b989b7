#pragma once
// Two nodes of one run with TCP connections over loopback, for the benches of links.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>

#include <troupe/core/check.hpp>
#include <troupe/core/clock.hpp>
#include <troupe/transport/authority.hpp>

namespace troupe::transport {

/// Both ends of a TCP connection over loopback: the dialled one first.
inline std::array<int, 2> loopback_connection() {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  TROUPE_CHECK(bind(listener, generic, size) == 0 && listen(listener, 1) == 0, "listen");
  TROUPE_CHECK(getsockname(listener, generic, &size) == 0, "getsockname");
  const int dialled = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  TROUPE_CHECK(connect(dialled, generic, size) == 0, "connect");
  const int accepted = accept(listener, nullptr, nullptr);
  close(listener);
  for (const int fd : {dialled, accepted}) {
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  return {dialled, accepted};
}

struct LoopbackNodes {
  const WallTime now = std::chrono::system_clock::now();
  const Authority authority = Authority::create("bench", now).value();
  const Identity left{"bench", {"actor"}, "left"};
  const Identity right{"bench", {"replay"}, "right"};
  const Credentials left_credentials = authority.issue(left, now).value();
  const Credentials right_credentials = authority.issue(right, now).value();
};

}  // namespace troupe::transport
