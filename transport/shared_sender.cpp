#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/rand.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include <troupe/core/log.hpp>
#include <troupe/transport/detail/shared_protocol.hpp>
#include <troupe/transport/detail/slots.hpp>
#include <troupe/transport/detail/unix_socket.hpp>
#include <troupe/transport/shared_memory.hpp>

namespace troupe::transport {
namespace {

/// Processes that came to the socket and have not said anything; one more drops the first of them.
constexpr std::size_t kMostStrangers = 4;
/// Packets taken in one call, so that a peer that floods the socket does not hold the caller; the rest waits.
constexpr int kMostReleases = 1024;

#ifdef MADV_POPULATE_WRITE
constexpr int kPopulateWrite = MADV_POPULATE_WRITE;
#else
constexpr int kPopulateWrite = 23;
#endif

/// A slot run that the receiver has not given back.
struct Use {
  std::uint64_t sequence = 0;
  std::size_t slots = 0;
};

Error failure(std::string_view what) {
  return {Code::kIo, fmt::format("shared memory: {}: {}", what, std::strerror(errno))};
}

Result<std::string> random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(count)) == 1) return bytes;
  return Error{Code::kInternal, "shared memory: OpenSSL has no random bytes"};
}

}  // namespace

struct SharedSender::State {
  explicit State(std::size_t slot_count) : slots(slot_count), touched(slot_count) {}

  void progress();
  void admit();
  void refuse(std::string_view why);
  void welcome(Descriptor receiver);
  void take_in_releases();
  void release(const Release& release);
  void lose();
  bool warm(std::size_t first, std::size_t count);

  std::mutex mutex;  // for everything below but what lies in the pool
  SharedOffer offer;
  std::uint64_t pool = 0;
  Descriptor memory;
  Mapping mapping;
  std::optional<PrivateListener> listener;  // until the receiver is there
  std::vector<Descriptor> strangers;
  Descriptor receiver;
  SlotRuns slots;
  std::vector<bool> touched;        // by slot: its pages are there
  std::map<std::size_t, Use> uses;  // by first slot
  std::uint64_t last_sequence = 0;
  SharedSenderStats stats;
};

void SharedSender::State::progress() {
  if (listener) admit();
  if (receiver.valid()) take_in_releases();
}

void SharedSender::State::admit() {
  while (std::optional<Descriptor> stranger = listener->accept()) {
    if (const Status user = check_same_user(*stranger); !user.ok()) {
      refuse(user.error().message);
      continue;
    }
    if (strangers.size() == kMostStrangers) {
      refuse("a process came to the socket and said nothing");
      strangers.erase(strangers.begin());
    }
    strangers.push_back(*std::move(stranger));
  }
  for (auto stranger = strangers.begin(); stranger != strangers.end();) {
    Hello hello;
    const Packet packet = receive_packet(*stranger, bytes_of(hello));
    if (packet == Packet::kDone && token_matches(hello.token, offer.secret, 0)) {
      welcome(std::move(*stranger));
      return;
    }
    if (packet == Packet::kLater) {
      ++stranger;
      continue;
    }
    refuse("a process came to the socket and does not know the link's secret");
    stranger = strangers.erase(stranger);
  }
}

/// The first one is logged: one line says that something is wrong, a thousand only fill the disk.
void SharedSender::State::refuse(std::string_view why) {
  if (stats.refused_peers++ == 0) log::warn("shared memory: refused at {}: {}", offer.path, why);
}

void SharedSender::State::welcome(Descriptor stranger) {
  strangers.clear();
  listener.reset();
  Welcome welcome{.pool = pool};
  std::memcpy(welcome.token.data(), offer.secret.data() + sizeof(Token), sizeof(Token));
  if (send_packet(stranger, bytes_of(welcome), memory.fd()) != Packet::kDone) return;  // it died; no other will come
  receiver = std::move(stranger);
}

void SharedSender::State::take_in_releases() {
  for (int taken = 0; taken < kMostReleases; ++taken) {
    Release said;
    switch (receive_packet(receiver, bytes_of(said))) {
      case Packet::kLater:
        return;
      case Packet::kEnded:
        return lose();
      case Packet::kDone:
        release(said);
    }
  }
}

void SharedSender::State::release(const Release& release) {
  const auto use = uses.find(release.offset / kSharedSlotBytes);
  if (release.offset % kSharedSlotBytes != 0 || use == uses.end() || use->second.sequence != release.sequence) {
    ++stats.false_releases;
    return;
  }
  stats.in_use_bytes -= use->second.slots * kSharedSlotBytes;
  slots.give_back(use->first, use->second.slots);
  uses.erase(use);
}

/// The memory stays until the sender goes: another thread may be copying into it.
void SharedSender::State::lose() {
  receiver = Descriptor();
  for (const auto& [first, use] : uses) slots.give_back(first, use.slots);
  uses.clear();
  stats.in_use_bytes = 0;
}

/// Has the pages made in one call, which took 60 % of the time of faulting them in one by one, and turns running out of
/// memory into an answer instead of a SIGBUS. A kernel before 5.14 does not know the call and faults.
bool SharedSender::State::warm(std::size_t first, std::size_t count) {
  return madvise(mapping.data() + first * kSharedSlotBytes, count * kSharedSlotBytes, kPopulateWrite) == 0 ||
         errno == EINVAL;
}

SharedSender::SharedSender(std::unique_ptr<State> state) : state_(std::move(state)) {}

SharedSender::~SharedSender() = default;

Result<std::unique_ptr<SharedSender>> SharedSender::make(const SharedSenderOptions& options) {
  if (options.pool_bytes < kSharedSlotBytes || options.pool_bytes > kSharedPoolMax) {
    return Error{Code::kInvalidArgument, fmt::format("shared memory: pool_bytes {}, expected {} to {}",
                                                     options.pool_bytes, kSharedSlotBytes, kSharedPoolMax)};
  }
  const std::size_t bytes = options.pool_bytes / kSharedSlotBytes * kSharedSlotBytes;
  auto state = std::make_unique<State>(bytes / kSharedSlotBytes);
  state->memory = Descriptor(memfd_create("troupe", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const int fd = state->memory.fd();
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0) return failure("cannot make the pool");
  state->mapping = Mapping(fd, bytes, PROT_READ | PROT_WRITE);
  if (!state->mapping) return failure("cannot map the pool");
  // Only this mapping can ever write, and nobody can cut the file under a reader's feet.
  if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0) {
    return failure("cannot seal the pool");
  }
  (void)madvise(state->mapping.data(), bytes, MADV_HUGEPAGE);  // where the system allows it for shared memory
  TROUPE_ASSIGN(state->offer.host, host_identity());
  TROUPE_ASSIGN(state->offer.secret, random_bytes(2 * sizeof(Token)));
  TROUPE_ASSIGN(const std::string pool, random_bytes(sizeof(state->pool)));
  std::memcpy(&state->pool, pool.data(), pool.size());
  TROUPE_ASSIGN(PrivateListener listener, PrivateListener::make(options.directory));
  state->offer.path = listener.path();
  state->listener.emplace(std::move(listener));
  return std::unique_ptr<SharedSender>(new SharedSender(std::move(state)));
}

const SharedOffer& SharedSender::offer() const { return state_->offer; }

std::optional<SharedReference> SharedSender::place(std::span<const std::byte> bytes) {
  if (bytes.size() < kSharedSlotBytes) return std::nullopt;
  State& state = *state_;
  const std::size_t count = slots_of(bytes.size());
  SharedReference reference{.pool = state.pool, .length = bytes.size()};
  std::size_t first = 0;
  {
    const std::lock_guard lock(state.mutex);
    state.progress();
    if (!state.receiver.valid()) {
      ++state.stats.not_connected;
      return std::nullopt;
    }
    const std::optional<std::size_t> run = state.slots.take(count);
    if (!run) {
      ++state.stats.full;
      return std::nullopt;
    }
    first = *run;
    const auto begin = state.touched.begin() + static_cast<std::ptrdiff_t>(first);
    const auto end = begin + static_cast<std::ptrdiff_t>(count);
    if (std::find(begin, end, false) != end) {
      if (!state.warm(first, count)) {  // the system has no memory
        state.slots.give_back(first, count);
        ++state.stats.full;
        return std::nullopt;
      }
      std::fill(begin, end, true);
    }
    reference.sequence = ++state.last_sequence;
    reference.offset = first * kSharedSlotBytes;
    state.uses[first] = {reference.sequence, count};
    state.stats.in_use_bytes += count * kSharedSlotBytes;
    ++state.stats.placed;
  }
  std::memcpy(state.mapping.data() + reference.offset, bytes.data(), bytes.size());
  return reference;
}

SharedSenderStats SharedSender::stats() {
  const std::lock_guard lock(state_->mutex);
  state_->progress();
  state_->stats.connected = state_->receiver.valid();
  return state_->stats;
}

}  // namespace troupe::transport
