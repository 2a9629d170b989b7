#pragma once
// Addresses as the system wants them, and names looked up within a deadline. Internal to transport/.
#include <sys/socket.h>

#include <stop_token>
#include <string>
#include <vector>

#include <troupe/core/clock.hpp>
#include <troupe/core/error.hpp>
#include <troupe/transport/address.hpp>

namespace troupe::transport {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = sizeof(sockaddr_storage);

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

/// Numeric. Of a Unix socket: host "local".
Address to_address(const SocketAddress& address);

/// "10.0.0.9:4123", "[fe80::1]:4123", or "a local peer": of the other end of a connection, for messages.
std::string peer_address(int socket);

/// All addresses of a host, at least one, in the system's order of preference. Numeric ones at once; names by a lookup
/// on a thread of its own, which the system cannot interrupt and which is left behind when the time is over or `stop`
/// is requested, at most kLookupsMax at a time. Errors: kInvalidArgument (no such name), kUnavailable (too many lookups
/// hang; stopped), kDeadlineExceeded.
Result<std::vector<SocketAddress>> resolve(const Address& address, Duration timeout, std::stop_token stop);
inline constexpr int kLookupsMax = 8;

}  // namespace troupe::transport
