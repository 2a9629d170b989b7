#include <troupe/transport/dial.hpp>

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <troupe/transport/detail/descriptor.hpp>
#include <troupe/transport/detail/socket_address.hpp>

namespace troupe::transport {
namespace {

constexpr Duration kStopNoticed = std::chrono::milliseconds(50);

/// A connection to a port that nobody listens on can reach its own end, when the system gives it that very port.
bool is_own_end(const Descriptor& socket) {
  SocketAddress local, peer;
  return getsockname(socket.fd(), local.get(), &local.size) == 0 &&
         getpeername(socket.fd(), peer.get(), &peer.size) == 0 && to_address(local) == to_address(peer);
}

/// Errors without the address, which the caller adds.
Result<Descriptor> connect(const SocketAddress& address, Duration deadline, const std::stop_token& stop) {
  const SteadyClock clock;
  const auto refused = [](int error) { return Error{Code::kUnavailable, std::strerror(error)}; };
  Descriptor socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return refused(errno);
  const int on = 1;
  setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (::connect(socket.fd(), address.get(), address.size) != 0 && errno != EINPROGRESS) return refused(errno);
  for (;;) {
    const Duration left = deadline - clock.now();
    if (stop.stop_requested()) return Error{Code::kUnavailable, "stopped"};
    if (left <= Duration::zero()) return Error{Code::kDeadlineExceeded, "no answer in time"};
    pollfd entry{socket.fd(), POLLOUT, 0};
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(std::min(left, kStopNoticed));
    if (const int ready = poll(&entry, 1, static_cast<int>(wait.count())); ready < 0 && errno != EINTR) {
      return refused(errno);
    } else if (ready > 0) {
      break;
    }
  }
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return refused(error);
  if (is_own_end(socket)) return refused(ECONNREFUSED);
  return socket;
}

}  // namespace

Result<int> dial(const Address& address, Duration timeout, std::stop_token stop) {
  const SteadyClock clock;
  const Duration deadline = clock.now() + timeout;
  TROUPE_ASSIGN(const auto addresses, resolve(address, timeout, stop));
  Error last;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const Duration now = clock.now();
    const Duration share = (deadline - now) / static_cast<std::int64_t>(addresses.size() - i);
    auto socket = connect(addresses[i], now + share, stop);
    if (socket.ok()) return socket->release();
    last = socket.error();
  }
  return Error{last.code, fmt::format("dial {}: {}", to_string(address), last.message)};
}

}  // namespace troupe::transport
