#include <troupe/transport/detail/socket_address.hpp>

#include <fmt/format.h>
#include <netdb.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include <troupe/core/text.hpp>

namespace troupe::transport {
namespace {

using Addresses = Result<std::vector<SocketAddress>>;

Addresses look_up(const Address& address, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (error != 0) {
    return Error{Code::kInvalidArgument,
                 fmt::format("look up \"{}\": {}", printable(address.host), gai_strerror(error))};
  }
  std::vector<SocketAddress> addresses;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    SocketAddress& next = addresses.emplace_back();
    std::memcpy(&next.storage, entry->ai_addr, entry->ai_addrlen);
    next.size = entry->ai_addrlen;
  }
  freeaddrinfo(found);
  return addresses;
}

/// Shared with the thread that looks up, which may outlive everybody who waits for it.
struct Lookup {
  std::mutex mutex;
  std::condition_variable_any changed;
  std::optional<Addresses> result;
};

std::atomic<int> lookups_running = 0;

}  // namespace

Address to_address(const SocketAddress& address) {
  char host[NI_MAXHOST], port[NI_MAXSERV];
  const auto family = address.storage.ss_family;
  if ((family != AF_INET && family != AF_INET6) || getnameinfo(address.get(), address.size, host, sizeof(host), port,
                                                               sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return {"local", 0};
  }
  return {host, static_cast<std::uint16_t>(std::stoul(port))};
}

std::string peer_address(int socket) {
  SocketAddress address;
  if (getpeername(socket, address.get(), &address.size) != 0) return "a peer that is gone";
  const Address peer = to_address(address);
  return peer.port == 0 ? "a local peer" : to_string(peer);
}

Addresses resolve(const Address& address, Duration timeout, std::stop_token stop) {
  if (address.host.empty()) return Error{Code::kInvalidArgument, "look up: no host given"};
  if (auto numeric = look_up(address, AI_NUMERICHOST); numeric.ok()) return numeric;
  if (lookups_running.fetch_add(1) >= kLookupsMax) {
    --lookups_running;
    return Error{Code::kUnavailable,
                 fmt::format("look up \"{}\": {} lookups have not come back yet", address.host, kLookupsMax)};
  }
  const auto lookup = std::make_shared<Lookup>();
  std::thread([lookup, address] {
    Addresses found = look_up(address, 0);
    --lookups_running;
    const std::lock_guard lock(lookup->mutex);
    lookup->result = std::move(found);
    lookup->changed.notify_all();
  }).detach();
  std::unique_lock lock(lookup->mutex);
  if (lookup->changed.wait_for(lock, stop, timeout, [&] { return lookup->result.has_value(); })) {
    return std::move(*lookup->result);
  }
  if (stop.stop_requested()) return Error{Code::kUnavailable, fmt::format("look up \"{}\": stopped", address.host)};
  return Error{Code::kDeadlineExceeded,
               fmt::format("look up \"{}\": no answer in {:g} s", address.host, seconds(timeout))};
}

}  // namespace troupe::transport
