#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <mutex>
#include <vector>

#include <troupe/transport/detail/shared_protocol.hpp>
#include <troupe/transport/detail/unix_socket.hpp>
#include <troupe/transport/shared_memory.hpp>

namespace troupe::transport {
namespace {

Error corrupt(std::string what) { return {Code::kCorrupt, "shared memory: " + std::move(what)}; }

/// What this end remembers of a slot of the pool.
struct Slot {
  std::uint64_t sequence = 0;  ///< of the last payload that touched it
  bool held = false;
};

}  // namespace

struct SharedReceiver::State {
  Status meet_sender();
  Status map(const Descriptor& memory);
  Status check(const SharedReference& reference) const;
  void release(const SharedReference& reference);
  void say_released();

  std::mutex mutex;  // for everything below; the bytes of the pool are read without it
  Descriptor socket;
  std::string secret;
  std::uint64_t pool = 0;
  Mapping mapping;  // none until the sender has answered
  std::vector<Slot> slots;
  /// What the socket had no room for. At most one for each slot; the next call sends it, and until then the sender has
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
    return corrupt("the sender does not know the link's secret");
  pool = welcome.pool;
  return map(memory);
}

Status SharedReceiver::State::map(const Descriptor& memory) {
  constexpr int kNeeded = F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE;
  struct stat status {};
  const int seals = fcntl(memory.fd(), F_GET_SEALS);
  if (seals < 0 || (seals & kNeeded) != kNeeded || fstat(memory.fd(), &status) != 0) {
    return corrupt(fmt::format("the sender's memory has seals {:#x}, expected {:#x} among them", seals, kNeeded));
  }
  const auto bytes = static_cast<std::size_t>(status.st_size);
  if (bytes == 0 || bytes % kSharedSlotBytes != 0 || bytes > kSharedPoolMax) {
    return corrupt(
        fmt::format("a pool of {} bytes, expected a multiple of {} up to {}", bytes, kSharedSlotBytes, kSharedPoolMax));
  }
  Mapping mapped(memory.fd(), bytes, PROT_READ);
  if (!mapped) {
    return Error{Code::kUnavailable,
                 fmt::format("shared memory: cannot map {} bytes: {}", bytes, std::strerror(errno))};
  }
  slots.resize(bytes / kSharedSlotBytes);
  mapping = std::move(mapped);
  return {};
}

Status SharedReceiver::State::check(const SharedReference& reference) const {
  const auto& [from, sequence, offset, length] = reference;
  if (from != pool) return corrupt(fmt::format("reference to pool {:x}, expected {:x}", from, pool));
  if (offset % kSharedSlotBytes != 0) {
    return corrupt(fmt::format("reference to offset {}, expected a multiple of {}", offset, kSharedSlotBytes));
  }
  if (length == 0 || length > mapping.size() || offset > mapping.size() - length) {
    return corrupt(
        fmt::format("reference to {} bytes at {}, expected some inside of {}", length, offset, mapping.size()));
  }
  const auto run = std::span(slots).subspan(offset / kSharedSlotBytes, slots_of(length));
  for (const Slot& slot : run) {
    if (slot.held) return corrupt(fmt::format("reference to {} bytes at {}, which are still in use", length, offset));
    if (slot.sequence >= sequence) {
      return corrupt(
          fmt::format("stale reference {} to offset {}, expected one after {}", sequence, offset, slot.sequence));
    }
  }
  return {};
}

void SharedReceiver::State::release(const SharedReference& reference) {
  const std::lock_guard lock(mutex);
  const auto run = std::span(slots).subspan(reference.offset / kSharedSlotBytes, slots_of(reference.length));
  for (Slot& slot : run) slot.held = false;
  stats.held_bytes -= run.size() * kSharedSlotBytes;
  unsaid.push_back({reference.sequence, reference.offset});
  say_released();
}

void SharedReceiver::State::say_released() {
  while (!unsaid.empty()) {
    const Packet packet = send_packet(socket, bytes_of(unsaid.front()));
    if (packet == Packet::kLater) return;
    if (packet == Packet::kEnded) return unsaid.clear();  // the sender is gone and needs no slots
    unsaid.pop_front();
  }
}

SharedReceiver::SharedReceiver(std::shared_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<SharedReceiver>> SharedReceiver::connect(const SharedOffer& offer) {
  TROUPE_ASSIGN(const std::string host, host_identity());
  if (offer.host != host) {
    return Error{Code::kUnavailable,
                 fmt::format("shared memory: the peer is on host {}, this is {}", offer.host, host)};
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
  /// Gives the slot back with the last copy of the shared_ptr.
  struct Hold {
    ~Hold() { state->release(reference); }
    const std::shared_ptr<State> state;
    const SharedReference reference;
  };
  const std::lock_guard lock(state_->mutex);
  if (!state_->mapping) TROUPE_TRY(state_->meet_sender());
  state_->say_released();
  if (Status status = state_->check(reference); !status.ok()) {
    ++state_->stats.refused;
    return status.error();
  }
  const auto run = std::span(state_->slots).subspan(reference.offset / kSharedSlotBytes, slots_of(reference.length));
  std::fill(run.begin(), run.end(), Slot{reference.sequence, true});
  state_->stats.held_bytes += run.size() * kSharedSlotBytes;
  ++state_->stats.opened;
  return SharedBytes{{state_->mapping.data() + reference.offset, reference.length},
                     std::make_shared<const Hold>(state_, reference)};
}

SharedReceiverStats SharedReceiver::stats() const {
  const std::lock_guard lock(state_->mutex);
  return state_->stats;
}

}  // namespace troupe::transport
