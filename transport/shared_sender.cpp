#include <fmt/format.h>
#include <openssl/rand.h>

#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include <troupe/core/log.hpp>
#include <troupe/transport/detail/shared_protocol.hpp>
#include <troupe/transport/detail/unix_socket.hpp>
#include <troupe/transport/shared_memory.hpp>

namespace troupe::transport {
namespace {

/// Processes that came to the socket and have not said anything; one more drops the first of them.
constexpr std::size_t kMostStrangers = 4;
/// Packets taken in one call, so that a peer that floods the socket does not hold the caller; the rest waits.
constexpr int kMostReleases = 1024;

/// A payload that the receiver has not given back.
struct Loan {
  std::shared_ptr<const void> owner;
  std::size_t bytes = 0;
};

Result<std::string> random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(count)) == 1) return bytes;
  return Error{Code::kInternal, "shared memory: OpenSSL has no random bytes"};
}

}  // namespace

struct SharedSender::State final : Lender {
  void take_back() override {
    const std::lock_guard lock(mutex);
    progress();
  }
  void progress();
  void admit();
  void refuse(std::string_view why);
  void welcome(Descriptor receiver);
  void take_in_releases();
  void release(const Release& release);
  void lose();
  bool has_room(std::size_t bytes);

  std::mutex mutex;  // for everything below but the bytes of the memory
  SharedOffer offer;
  std::uint64_t id = 0;
  std::shared_ptr<LendableMemory> memory;
  std::size_t most_bytes = 0;
  std::optional<PrivateListener> listener;  // until the receiver is there
  std::vector<Descriptor> strangers;
  Descriptor receiver;
  std::map<std::uint64_t, Loan> loans;  // by sequence
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
  Welcome welcome{.memory = id};
  std::memcpy(welcome.token.data(), offer.secret.data() + sizeof(Token), sizeof(Token));
  if (send_packet(stranger, bytes_of(welcome), memory->file()) != Packet::kDone) return;  // it died; no other will come
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
  const auto loan = loans.find(release.sequence);
  if (loan == loans.end()) {
    ++stats.false_releases;
    return;
  }
  stats.lent_bytes -= loan->second.bytes;
  loans.erase(loan);
}

/// Its socket ends with the last payload that it holds, or with its process.
void SharedSender::State::lose() {
  receiver = Descriptor();
  loans.clear();
  stats.lent_bytes = 0;
}

/// Whether so many bytes can be lent now; counts why they cannot.
bool SharedSender::State::has_room(std::size_t bytes) {
  const bool fits = bytes <= most_bytes && stats.lent_bytes <= most_bytes - bytes;
  if (!receiver.valid()) {
    ++stats.not_connected;
  } else if (!fits) {
    ++stats.full;
  }
  return receiver.valid() && fits;
}

SharedSender::SharedSender(std::shared_ptr<State> state) : state_(std::move(state)) {}

SharedSender::~SharedSender() = default;

Result<std::unique_ptr<SharedSender>> SharedSender::make(SharedSenderOptions options) {
  if (options.memory == nullptr) return Error{Code::kInvalidArgument, "shared memory: there is none to lend"};
  auto state = std::make_shared<State>();
  state->memory = std::move(options.memory);
  state->most_bytes = options.most_bytes;
  TROUPE_ASSIGN(state->offer.host, host_identity());
  TROUPE_ASSIGN(state->offer.secret, random_bytes(2 * sizeof(Token)));
  TROUPE_ASSIGN(const std::string id, random_bytes(sizeof(state->id)));
  std::memcpy(&state->id, id.data(), id.size());
  TROUPE_ASSIGN(PrivateListener listener, PrivateListener::make(options.directory));
  state->offer.path = listener.path();
  state->listener.emplace(std::move(listener));
  state->memory->add(state);
  return std::unique_ptr<SharedSender>(new SharedSender(std::move(state)));
}

const SharedOffer& SharedSender::offer() const { return state_->offer; }

std::optional<SharedReference> SharedSender::lend(std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  if (bytes.size() < LendableMemory::kLeastBlock) return std::nullopt;
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  state.progress();
  if (!state.has_room(bytes.size())) return std::nullopt;
  std::optional<std::size_t> offset = state.memory->offset_of(bytes);
  if (!offset || *offset % LendableMemory::kGranule != 0) {
    lock.unlock();
    LendableArray copy = state.memory->take(bytes.size());
    if (copy != nullptr) std::memcpy(copy.get(), bytes.data(), bytes.size());
    lock.lock();
    if (copy == nullptr) ++state.stats.full;
    if (copy == nullptr || !state.has_room(bytes.size())) return std::nullopt;
    offset = state.memory->offset_of({copy.get(), bytes.size()});
    owner = std::move(copy);
    ++state.stats.copied;
  }
  state.loans[++state.last_sequence] = {std::move(owner), bytes.size()};
  state.stats.lent_bytes += bytes.size();
  ++state.stats.lent;
  return SharedReference{state.id, state.last_sequence, *offset, bytes.size()};
}

SharedSenderStats SharedSender::stats() {
  const std::lock_guard lock(state_->mutex);
  state_->progress();
  state_->stats.connected = state_->receiver.valid();
  return state_->stats;
}

}  // namespace troupe::transport
