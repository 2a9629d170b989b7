#pragma once
// What the tests of shared memory stand on: payloads, a second process, a sender with memory of its own.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/core/check.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/transport/detail/shared_protocol.hpp>
#include <troupe/transport/detail/unix_socket.hpp>
#include <troupe/transport/shared_memory.hpp>

namespace troupe::transport {

inline constexpr std::size_t kLeast = LendableMemory::kLeastBlock;
inline constexpr std::size_t kMiB = std::size_t{1} << 20;

/// Bytes that differ by place and by seed.
inline std::vector<std::byte> payload(std::size_t size, std::uint64_t seed) {
  std::vector<std::byte> bytes(size);
  Rng rng(seed);
  std::size_t i = 0;
  for (; i + 8 <= size; i += 8) {
    const std::uint64_t word = rng();
    std::memcpy(&bytes[i], &word, 8);
  }
  for (; i < size; ++i) bytes[i] = static_cast<std::byte>(rng());
  return bytes;
}

inline bool same(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0;
}

/// A second process that runs `body` with its end of a socket of packets, and is killed with the object.
class Child {
 public:
  explicit Child(const std::function<bool(const Descriptor&)>& body) {
    int ends[2];
    TROUPE_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
    socket_ = Descriptor(ends[0]);
    Descriptor other(ends[1]);
    pid_ = fork();
    if (pid_ == 0) {
      socket_ = Descriptor();
      _exit(body(other) ? 0 : 1);
    }
  }
  ~Child() {
    if (pid_ > 0) kill();
  }
  const Descriptor& socket() const { return socket_; }
  pid_t pid() const { return pid_; }
  void kill() {
    ::kill(pid_, SIGKILL);
    (void)wait();
  }
  /// Its exit status.
  int wait() {
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return status;
  }

 private:
  Descriptor socket_;
  pid_t pid_ = -1;
};

template <typename T>
void tell(const Descriptor& socket, T value) {
  TROUPE_CHECK(send_packet(socket, bytes_of(value)) == Packet::kDone, "the other process is gone");
}

template <typename T>
T hear(const Descriptor& socket) {
  pollfd entry{socket.fd(), POLLIN, 0};
  T value{};
  TROUPE_CHECK(poll(&entry, 1, 20'000) == 1 && receive_packet(socket, bytes_of(value)) == Packet::kDone,
               "the other process is gone or stuck");
  return value;
}

/// An offer as one packet.
struct OfferPacket {
  char host[128], path[128], secret[64];
};
inline OfferPacket pack(const SharedOffer& offer) {
  OfferPacket packet{};
  offer.host.copy(packet.host, sizeof(packet.host) - 1);
  offer.path.copy(packet.path, sizeof(packet.path) - 1);
  offer.secret.copy(packet.secret, sizeof(packet.secret));
  return packet;
}
inline SharedOffer unpack(const OfferPacket& packet) {
  return {packet.host, packet.path, std::string(packet.secret, sizeof(packet.secret))};
}

/// A sender with memory of its own, in which payloads are made as frames are.
struct Source {
  std::shared_ptr<LendableMemory> memory;
  std::unique_ptr<SharedSender> sender;

  SharedSender* operator->() const { return sender.get(); }
  std::optional<SharedReference> lend(std::span<const std::byte> bytes) const {
    std::shared_ptr<std::byte[]> made = memory->take(std::max<std::size_t>(bytes.size(), 1));
    if (made == nullptr) return std::nullopt;
    if (!bytes.empty()) std::memcpy(made.get(), bytes.data(), bytes.size());
    return sender->lend({made.get(), bytes.size()}, made);
  }
};

class SharedMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string folder = ::testing::TempDir() + "shm-XXXXXX";
    TROUPE_CHECK(mkdtemp(folder.data()) != nullptr, "no folder for the test");
    folder_ = folder;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Source sender(std::size_t most_bytes = kMiB, std::size_t memory_bytes = 256 * kMiB) {
    const auto memory = LendableMemory::make(memory_bytes).value();
    return {memory, SharedSender::make({.memory = memory, .most_bytes = most_bytes, .directory = folder_}).value()};
  }
  bool folder_is_empty() const { return std::filesystem::is_empty(folder_); }

  std::string folder_;
};

/// Both ends in this process.
class SharedPair : public SharedMemory {
 protected:
  void connect(std::size_t most_bytes = kMiB, std::size_t memory_bytes = 256 * kMiB) {
    sender_ = sender(most_bytes, memory_bytes);
    receiver_ = SharedReceiver::connect(sender_->offer()).value();
  }
  SharedReference lend(std::size_t size = kLeast, std::uint64_t seed = 1) {
    return sender_.lend(payload(size, seed)).value();
  }
  std::string refusal(const SharedReference& reference) {
    const auto opened = receiver_->open(reference);
    return opened.ok() ? "opened" : opened.error().message;
  }

  Source sender_;
  std::unique_ptr<SharedReceiver> receiver_;
};

inline std::size_t open_descriptors() {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

}  // namespace troupe::transport
