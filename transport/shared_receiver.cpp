#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <mutex>
#include <set>
#include <utility>

#include <troupe/transport/detail/shared_protocol.hpp>
#include <troupe/transport/detail/unix_socket.hpp>
#include <troupe/transport/shared_memory.hpp>

namespace troupe::transport {
namespace {

Error corrupt_share(std::string what) { return {Code::kCorrupt, "shared memory: " + std::move(what)}; }

/// References that may be on their way at once: threads that lend at the same time send in any order.
constexpr std::uint64_t kMostMissing = 4096;

}  // namespace

struct SharedReceiver::State {
  Status meet_sender();
  Status map(const Descriptor& memory);
  Status check(const SharedReference& reference) const;
  /// Notes that it was opened. Errors: kCorrupt: it was before.
  Status take(std::uint64_t sequence);
  void release(const SharedReference& reference);
  void say_released();

  std::mutex mutex;  // for everything below; the bytes of the memory are read without it
  Descriptor socket;
  std::string secret;
  std::uint64_t id = 0;
  Mapping mapping;  // none until the sender has answered
  std::uint64_t newest = 0;
  std::set<std::uint64_t> missing;  // sequences below `newest` that have not come
  /// What the socket had no room for: no more than is lent. The next call sends it, and until then the sender has
  /// enough of the earlier ones to take in.
  std::deque<Release> unsaid;
  SharedReceiverStats stats;
};

/// The sender's answer lies in the socket before the first reference can come over the link.
Status SharedReceiver::State::meet_sender() {
  Welcome welcome;
  Descriptor memory;
  const Packet packet = receive_packet(socket, bytes_of(welcome), &memory);
  if (packet == Packet::kLater) return Error{Code::kUnavailable, "shared memory: the sender has not answered yet"};
  if (packet == Packet::kEnded) return Error{Code::kUnavailable, "shared memory: the sender is gone or not Troupe"};
  if (!token_matches(welcome.token, secret, sizeof(Token)))
    return corrupt_share("the sender does not know the link's secret");
  id = welcome.memory;
  return map(memory);
}

Status SharedReceiver::State::map(const Descriptor& memory) {
  constexpr int kNeeded = F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE;
  struct stat status {};
  const int seals = fcntl(memory.fd(), F_GET_SEALS);
  if (seals < 0 || (seals & kNeeded) != kNeeded || fstat(memory.fd(), &status) != 0) {
    return corrupt_share(fmt::format("the sender's memory has seals {:#x}, expected {:#x} among them", seals, kNeeded));
  }
  const auto bytes = static_cast<std::size_t>(status.st_size);
  if (bytes == 0 || bytes % LendableMemory::kGranule != 0 || bytes > LendableMemory::kMost) {
    return corrupt_share(fmt::format("a memory of {} bytes, expected a multiple of {} up to {}", bytes,
                                     LendableMemory::kGranule, LendableMemory::kMost));
  }
  Mapping mapped(memory.fd(), bytes, PROT_READ);
  if (!mapped) {
    return Error{Code::kUnavailable,
                 fmt::format("shared memory: cannot map {} bytes: {}", bytes, std::strerror(errno))};
  }
  mapping = std::move(mapped);
  return {};
}

Status SharedReceiver::State::check(const SharedReference& reference) const {
  const auto& [from, sequence, offset, length] = reference;
  if (from != id) return corrupt_share(fmt::format("reference to memory {:x}, expected {:x}", from, id));
  if (offset % LendableMemory::kGranule != 0) {
    return corrupt_share(
        fmt::format("reference to offset {}, expected a multiple of {}", offset, LendableMemory::kGranule));
  }
  if (length == 0 || length > mapping.size() || offset > mapping.size() - length) {
    return corrupt_share(
        fmt::format("reference to {} bytes at {}, expected some inside of {}", length, offset, mapping.size()));
  }
  return {};
}

Status SharedReceiver::State::take(std::uint64_t sequence) {
  if (sequence <= newest) {
    if (missing.erase(sequence) > 0) return {};
    return corrupt_share(fmt::format("stale reference {}, expected one after {}", sequence, newest));
  }
  if (sequence - newest > kMostMissing - missing.size()) {
    return corrupt_share(
        fmt::format("reference {} after {}, of which {} are missing", sequence, newest, missing.size()));
  }
  while (++newest < sequence) missing.insert(newest);
  return {};
}

void SharedReceiver::State::release(const SharedReference& reference) {
  const std::lock_guard lock(mutex);
  stats.held_bytes -= reference.length;
  unsaid.push_back({reference.sequence});
  say_released();
}

void SharedReceiver::State::say_released() {
  while (!unsaid.empty()) {
    const Packet packet = send_packet(socket, bytes_of(unsaid.front()));
    if (packet == Packet::kLater) return;
    if (packet == Packet::kEnded) return unsaid.clear();  // the sender is gone and needs nothing back
    unsaid.pop_front();
  }
}

SharedReceiver::SharedReceiver(std::shared_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<SharedReceiver>> SharedReceiver::connect(const SharedOffer& offer) {
  TROUPE_ASSIGN(const std::string host, host_identity());
  if (offer.host != host) {
    return Error{Code::kUnavailable, fmt::format("shared memory: the peer is {}, in {}; this is {}",
                                                 same_machine(offer.host, host) ? "on this machine, but in namespaces "
                                                                                  "of its own"
                                                                                : "on another machine",
                                                 offer.host, host)};
  }
  if (offer.secret.size() != 2 * sizeof(Token)) {
    return Error{Code::kInvalidArgument, fmt::format("shared memory: a secret of {} bytes, expected {}",
                                                     offer.secret.size(), 2 * sizeof(Token))};
  }
  auto state = std::make_shared<State>();
  state->secret = offer.secret;
  TROUPE_ASSIGN(state->socket, connect_private(offer.path));
  if (const Status user = check_same_user(state->socket); !user.ok()) {
    return Error{user.error().code, fmt::format("shared memory: {}: {}", offer.path, user.error().message)};
  }
  Hello hello;
  std::memcpy(hello.token.data(), offer.secret.data(), sizeof(Token));
  if (send_packet(state->socket, bytes_of(hello)) != Packet::kDone) {
    return Error{Code::kUnavailable, fmt::format("shared memory: {} took no greeting", offer.path)};
  }
  return std::unique_ptr<SharedReceiver>(new SharedReceiver(std::move(state)));
}

Result<SharedBytes> SharedReceiver::open(const SharedReference& reference) {
  /// Gives the payload back with the last copy of the shared_ptr.
  struct Hold {
    Hold(std::shared_ptr<State> state_in, const SharedReference& reference_in)
        : state(std::move(state_in)), reference(reference_in) {}
    ~Hold() { state->release(reference); }
    const std::shared_ptr<State> state;
    const SharedReference reference;
  };
  const std::lock_guard lock(state_->mutex);
  if (!state_->mapping) TROUPE_TRY(state_->meet_sender());
  state_->say_released();
  Status good = state_->check(reference);
  if (good.ok()) good = state_->take(reference.sequence);
  if (!good.ok()) {
    ++state_->stats.refused;
    return good.error();
  }
  state_->stats.held_bytes += reference.length;
  ++state_->stats.opened;
  return SharedBytes{{state_->mapping.data() + reference.offset, reference.length},
                     std::make_shared<const Hold>(state_, reference)};
}

SharedReceiverStats SharedReceiver::stats() const {
  const std::lock_guard lock(state_->mutex);
  return state_->stats;
}

}  // namespace troupe::transport
