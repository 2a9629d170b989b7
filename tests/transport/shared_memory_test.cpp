// Shared memory between a sender and a receiver: in one process where that shows the same, and in two where death,
// users and mappings matter.
#include <troupe/transport/shared_memory.hpp>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include <troupe/core/check.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/transport/detail/shared_protocol.hpp>
#include <troupe/transport/detail/unix_socket.hpp>

namespace troupe::transport {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kSlot = kSharedSlotBytes;
constexpr std::size_t kMiB = std::size_t{1} << 20;

/// Bytes that differ by place and by seed.
std::vector<std::byte> payload(std::size_t size, std::uint64_t seed) {
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

bool same(std::span<const std::byte> a, std::span<const std::byte> b) {
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
OfferPacket pack(const SharedOffer& offer) {
  OfferPacket packet{};
  offer.host.copy(packet.host, sizeof(packet.host) - 1);
  offer.path.copy(packet.path, sizeof(packet.path) - 1);
  offer.secret.copy(packet.secret, sizeof(packet.secret));
  return packet;
}
SharedOffer unpack(const OfferPacket& packet) {
  return {packet.host, packet.path, std::string(packet.secret, sizeof(packet.secret))};
}

class SharedMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string folder = ::testing::TempDir() + "shm-XXXXXX";
    TROUPE_CHECK(mkdtemp(folder.data()) != nullptr, "no folder for the test");
    folder_ = folder;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<SharedSender> sender(std::size_t pool_bytes = kMiB) {
    return SharedSender::make({.pool_bytes = pool_bytes, .directory = folder_}).value();
  }
  bool folder_is_empty() const { return std::filesystem::is_empty(folder_); }

  std::string folder_;
};

/// Both ends in this process.
class SharedPair : public SharedMemory {
 protected:
  void connect(std::size_t pool_bytes = kMiB) {
    sender_ = sender(pool_bytes);
    receiver_ = SharedReceiver::connect(sender_->offer()).value();
  }
  SharedReference place(std::size_t size = kSlot, std::uint64_t seed = 1) {
    return sender_->place(payload(size, seed)).value();
  }
  std::string refusal(const SharedReference& reference) {
    const auto opened = receiver_->open(reference);
    return opened.ok() ? "opened" : opened.error().message;
  }

  std::unique_ptr<SharedSender> sender_;
  std::unique_ptr<SharedReceiver> receiver_;
};

TEST_F(SharedMemory, CarriesPayloadsOfAllSizesToAnotherProcess) {
  const std::vector<std::size_t> sizes = {kSlot, kSlot + 1, kMiB + 17, 16 * kMiB, 64 * kMiB, 3 * kSlot - 1};
  const auto source = sender(96 * kMiB);
  Child child([&](const Descriptor& parent) {
    const auto receiver = SharedReceiver::connect(source->offer()).value();
    tell(parent, true);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const auto opened = receiver->open(hear<SharedReference>(parent));
      const bool aligned = opened.ok() && reinterpret_cast<std::uintptr_t>(opened->bytes.data()) % 4096 == 0;
      tell(parent, aligned && same(opened->bytes, payload(sizes[i], i)));
    }
    return hear<bool>(parent);
  });
  ASSERT_TRUE(hear<bool>(child.socket()));
  EXPECT_TRUE(source->stats().connected);
  EXPECT_TRUE(folder_is_empty()) << "the socket is of no use any more";
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto reference = source->place(payload(sizes[i], i));
    ASSERT_TRUE(reference) << sizes[i];
    tell(child.socket(), *reference);
    EXPECT_TRUE(hear<bool>(child.socket())) << sizes[i];
  }
  EXPECT_EQ(source->stats().placed, sizes.size());
  tell(child.socket(), true);
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(SharedMemory, AKilledReceiverGivesItsSlotsBack) {
  const auto source = sender();
  Child child([&](const Descriptor& parent) {
    const auto receiver = SharedReceiver::connect(source->offer()).value();
    tell(parent, true);
    const auto held = receiver->open(hear<SharedReference>(parent));
    tell(parent, held.ok());
    return hear<bool>(parent);
  });
  ASSERT_TRUE(hear<bool>(child.socket()));
  tell(child.socket(), source->place(payload(3 * kSlot, 1)).value());
  ASSERT_TRUE(hear<bool>(child.socket()));
  ASSERT_TRUE(source->place(payload(2 * kSlot, 2))) << "never opened";
  EXPECT_EQ(source->stats().in_use_bytes, 5 * kSlot);
  child.kill();
  EXPECT_FALSE(source->place(payload(kSlot, 3)));
  const SharedSenderStats stats = source->stats();
  EXPECT_FALSE(stats.connected);
  EXPECT_EQ(stats.in_use_bytes, 0);
  EXPECT_EQ(stats.not_connected, 1);
}

TEST_F(SharedMemory, WhatIsOpenOutlivesAKilledSenderAndTheReceiver) {
  Child child([&](const Descriptor& parent) {
    const auto source = sender();
    tell(parent, pack(source->offer()));
    if (!hear<bool>(parent)) return false;
    for (std::uint64_t i = 0; i < 2; ++i) tell(parent, source->place(payload(5 * kSlot, i)).value());
    return hear<bool>(parent);
  });
  auto receiver = SharedReceiver::connect(unpack(hear<OfferPacket>(child.socket()))).value();
  tell(child.socket(), true);
  const auto first = hear<SharedReference>(child.socket());
  const auto second = hear<SharedReference>(child.socket());
  std::vector<SharedBytes> held;
  held.push_back(receiver->open(first).value());
  child.kill();
  held.push_back(receiver->open(second).value());  // it was here before its sender died
  receiver.reset();
  EXPECT_TRUE(same(held[0].bytes, payload(5 * kSlot, 0)));
  EXPECT_TRUE(same(held[1].bytes, payload(5 * kSlot, 1)));
}

TEST_F(SharedPair, UsesSlotsAgain) {
  connect(kMiB);
  for (std::uint64_t i = 0; i < 100; ++i) {
    const auto bytes = payload(700 * 1024, i);
    const auto reference = sender_->place(bytes);
    ASSERT_TRUE(reference) << i;
    ASSERT_TRUE(same(receiver_->open(*reference).value().bytes, bytes)) << i;
  }
  EXPECT_EQ(sender_->stats().full, 0);
  EXPECT_EQ(receiver_->stats().opened, 100);
}

TEST_F(SharedPair, AFullPoolLeavesPayloadsToTheLink) {
  connect(4 * kSlot);
  EXPECT_FALSE(sender_->place(payload(4 * kSlot + 1, 1))) << "larger than the pool";
  auto first = receiver_->open(place(2 * kSlot)).value();
  const SharedBytes second = receiver_->open(place(2 * kSlot)).value();
  EXPECT_FALSE(sender_->place(payload(kSlot, 1)));
  EXPECT_EQ(sender_->stats().full, 2);
  EXPECT_EQ(sender_->stats().in_use_bytes, 4 * kSlot);
  EXPECT_EQ(receiver_->stats().held_bytes, 4 * kSlot);
  first = {};
  EXPECT_TRUE(sender_->place(payload(kSlot, 1)));
}

TEST_F(SharedPair, SmallPayloadsAreNotForIt) {
  connect();
  EXPECT_FALSE(sender_->place({}));
  EXPECT_FALSE(sender_->place(payload(kSlot - 1, 1)));
  EXPECT_EQ(sender_->stats().full + sender_->stats().not_connected, 0);
}

TEST_F(SharedPair, WithoutAReceiverPayloadsAreLeftToTheLinkUntilItComes) {
  sender_ = sender();
  EXPECT_FALSE(sender_->place(payload(kSlot, 1)));
  EXPECT_EQ(sender_->stats().not_connected, 1);
  receiver_ = SharedReceiver::connect(sender_->offer()).value();
  EXPECT_TRUE(sender_->place(payload(kSlot, 1)));
}

TEST_F(SharedPair, ReleasesThatFoundNoRoomOnTheSocketAreNotLost) {
  constexpr std::size_t kCount = 1000;  // a Unix socket holds fewer than 300 such packets
  connect(kCount * kSlot);
  {
    std::vector<SharedBytes> held;
    for (std::size_t i = 0; i < kCount; ++i) held.push_back(receiver_->open(place()).value());
    EXPECT_FALSE(sender_->place(payload(kSlot, 1)));
  }
  for (int round = 0; round < 10; ++round) ASSERT_TRUE(receiver_->open(place()).ok());
  EXPECT_EQ(sender_->stats().in_use_bytes, 0);
  EXPECT_EQ(sender_->stats().false_releases, 0);
}

TEST_F(SharedPair, RefusesFalseReferences) {
  connect(8 * kSlot);
  const SharedReference held = place(2 * kSlot);
  const SharedBytes bytes = receiver_->open(held).value();
  const SharedReference good = place(2 * kSlot);
  const auto changed = [&](auto change) {
    SharedReference reference = good;
    change(reference);
    return refusal(reference);
  };
  EXPECT_THAT(changed([](auto& r) { r.pool ^= 1; }), HasSubstr("reference to pool"));
  EXPECT_THAT(changed([](auto& r) { r.offset += 64; }), HasSubstr("expected a multiple of 65536"));
  EXPECT_EQ(changed([](auto& r) { r.length = 0; }),
            "shared memory: reference to 0 bytes at 131072, expected some inside of 524288");
  EXPECT_THAT(changed([](auto& r) { r.length = 6 * kSlot + 1; }), HasSubstr("inside of 524288"));
  EXPECT_THAT(changed([](auto& r) { r.length = ~std::uint64_t{0}; }), HasSubstr("inside of 524288"));
  EXPECT_THAT(changed([](auto& r) { r.offset = 8 * kSlot; }), HasSubstr("inside of 524288"));
  EXPECT_THAT(changed([](auto& r) { r.offset = ~std::uint64_t{0} / kSlot * kSlot; }), HasSubstr("inside of 524288"));
  EXPECT_THAT(changed([](auto& r) { r.offset = kSlot; }), HasSubstr("still in use"));
  EXPECT_THAT(changed([](auto& r) { r.sequence = 0; }), HasSubstr("stale"));
  EXPECT_THAT(refusal(held), HasSubstr("still in use"));
  EXPECT_EQ(receiver_->stats().refused, 10);
  EXPECT_EQ(receiver_->stats().held_bytes, 2 * kSlot) << "a refusal changes nothing";
  EXPECT_EQ(refusal(good), "opened");
  EXPECT_THAT(refusal(good), HasSubstr("stale reference 2 to offset 131072, expected one after 2"));
}

TEST_F(SharedMemory, CountsFalseReleasesAndKeepsTheSlots) {
  const auto source = sender();
  const Descriptor peer = connect_private(source->offer().path).value();
  Hello hello;
  std::memcpy(hello.token.data(), source->offer().secret.data(), sizeof(Token));
  tell(peer, hello);
  const SharedReference reference = source->place(payload(2 * kSlot, 1)).value();
  const auto false_releases = [&](const Release& release) {
    tell(peer, release);
    return source->stats().false_releases;
  };
  EXPECT_EQ(false_releases({reference.sequence + 1, reference.offset}), 1);
  EXPECT_EQ(false_releases({reference.sequence, reference.offset + 1}), 2);
  EXPECT_EQ(false_releases({reference.sequence, reference.offset + kSlot}), 3);
  EXPECT_EQ(false_releases({reference.sequence, ~std::uint64_t{0}}), 4);
  EXPECT_EQ(source->stats().in_use_bytes, 2 * kSlot);
  EXPECT_EQ(false_releases({reference.sequence, reference.offset}), 4);
  EXPECT_EQ(source->stats().in_use_bytes, 0);
  EXPECT_EQ(false_releases({reference.sequence, reference.offset}), 5) << "twice";
  EXPECT_TRUE(source->stats().connected);
  tell(peer, 'x');
  EXPECT_FALSE(source->stats().connected) << "no release at all";
}

TEST_F(SharedPair, OnlyWhoKnowsTheSecretGetsTheMemory) {
  sender_ = sender();
  SharedOffer wrong = sender_->offer();
  wrong.secret[0] ^= 1;
  const auto stranger = SharedReceiver::connect(wrong).value();
  EXPECT_FALSE(sender_->place(payload(kSlot, 1)));
  EXPECT_EQ(sender_->stats().refused_peers, 1);
  EXPECT_THAT(stranger->open({}).error().message, HasSubstr("the sender is gone"));
  receiver_ = SharedReceiver::connect(sender_->offer()).value();
  EXPECT_EQ(refusal(place()), "opened") << "the linked peer still gets in";
}

TEST_F(SharedPair, MemoryOfASenderWithoutTheSecretIsNotRead) {
  sender_ = sender();
  SharedOffer offer = sender_->offer();
  offer.secret[63] ^= 1;
  receiver_ = SharedReceiver::connect(offer).value();
  EXPECT_EQ(refusal(place()), "shared memory: the sender does not know the link's secret");
}

TEST_F(SharedPair, SilentStrangersDoNotKeepTheReceiverOut) {
  sender_ = sender();
  std::vector<Descriptor> strangers;
  for (int i = 0; i < 20; ++i) {
    strangers.push_back(connect_private(sender_->offer().path).value());
    EXPECT_FALSE(sender_->stats().connected);
  }
  receiver_ = SharedReceiver::connect(sender_->offer()).value();
  EXPECT_EQ(refusal(place()), "opened");
}

/// A sender that knows the secret and hands over `fd`.
std::string refusal_of_memory(const std::string& folder, const std::vector<int>& fds) {
  auto listener = PrivateListener::make(folder).value();
  const SharedOffer offer{host_identity().value(), listener.path(), std::string(64, 's')};
  const auto receiver = SharedReceiver::connect(offer).value();
  const Descriptor peer = listener.accept().value();
  Welcome welcome;
  welcome.token.fill(std::byte{'s'});
  // By hand, because more than one descriptor is possible here.
  iovec part{&welcome, sizeof(welcome)};
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size() * sizeof(int));
  }
  TROUPE_CHECK(sendmsg(peer.fd(), &message, 0) == sizeof(welcome), "sendmsg");
  return receiver->open({}).error().message;
}

std::size_t open_descriptors() {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

TEST_F(SharedMemory, RefusesMemoryThatTheSenderCouldCutOff) {
  const auto memory = [](off_t bytes, int seals) {
    Descriptor made(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    TROUPE_CHECK(ftruncate(made.fd(), bytes) == 0 && fcntl(made.fd(), F_ADD_SEALS, seals) == 0, "memfd");
    return made;
  };
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE;
  const Descriptor good = memory(kSlot, kSeals);
  const Descriptor unsealed = memory(kSlot, 0);
  const Descriptor empty = memory(0, kSeals);
  const Descriptor odd = memory(kSlot + 1, kSeals);
  const Descriptor huge = memory(off_t{1} << 50, kSeals);
  const std::size_t before = open_descriptors();
  EXPECT_THAT(refusal_of_memory(folder_, {good.fd()}), HasSubstr("expected some inside of 65536"));
  EXPECT_THAT(refusal_of_memory(folder_, {unsealed.fd()}), HasSubstr("seals 0x0, expected 0x12 among them"));
  EXPECT_THAT(refusal_of_memory(folder_, {empty.fd()}), HasSubstr("a pool of 0 bytes"));
  EXPECT_THAT(refusal_of_memory(folder_, {odd.fd()}), HasSubstr("a pool of 65537 bytes"));
  EXPECT_THAT(refusal_of_memory(folder_, {huge.fd()}), HasSubstr("a pool of 1125899906842624 bytes"));
  EXPECT_THAT(refusal_of_memory(folder_, {STDERR_FILENO}), HasSubstr("seals"));
  EXPECT_THAT(refusal_of_memory(folder_, {}), HasSubstr("seals"));
  EXPECT_THAT(refusal_of_memory(folder_, {good.fd(), good.fd()}), HasSubstr("the sender is gone or not Troupe"));
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(SharedMemory, PeersOnOtherHostsAndStrangePathsAreLeftAlone) {
  const auto source = sender();
  const auto refusal = [&](auto change) {
    SharedOffer offer = source->offer();
    change(offer);
    const auto connected = SharedReceiver::connect(offer);
    return connected.ok() ? "connected" : connected.error().message;
  };
  EXPECT_THAT(refusal([](auto& offer) { offer.host = "elsewhere"; }), HasSubstr("the peer is on host elsewhere"));
  EXPECT_THAT(refusal([](auto& offer) { offer.secret.pop_back(); }), HasSubstr("a secret of 63 bytes, expected 64"));
  EXPECT_THAT(refusal([](auto& offer) { offer.path += "-gone"; }), HasSubstr("cannot connect to"));
  EXPECT_THAT(refusal([](auto& offer) { offer.path += std::string(200, 'x'); }), HasSubstr("at most 107 allowed"));
  EXPECT_THAT(refusal([](auto& offer) { offer.path = "/nowhere/socket"; }), HasSubstr("no folder /nowhere"));
  EXPECT_THAT(refusal([](auto& offer) { offer.path = "socket"; }), HasSubstr("no folder"));
  ASSERT_EQ(chmod(std::filesystem::path(source->offer().path).parent_path().c_str(), 0750), 0);
  EXPECT_THAT(refusal([](auto&) {}), HasSubstr("has mode 40750"));
}

TEST_F(SharedMemory, BadOptionsAreErrors) {
  const auto refusal = [](const SharedSenderOptions& options) {
    const auto made = SharedSender::make(options);
    return made.ok() ? "made" : made.error().message;
  };
  EXPECT_THAT(refusal({.pool_bytes = kSlot - 1, .directory = folder_}), HasSubstr("pool_bytes 65535, expected 65536"));
  EXPECT_THAT(refusal({.pool_bytes = kSharedPoolMax + 1, .directory = folder_}), HasSubstr("pool_bytes"));
  EXPECT_THAT(refusal({.directory = folder_ + "/nowhere"}), HasSubstr("cannot make a folder in"));
  EXPECT_THAT(refusal({.directory = std::string(200, 'x')}), HasSubstr("at most 107 allowed"));
  EXPECT_TRUE(folder_is_empty());
}

TEST_F(SharedMemory, ProcessesOfOtherUsersAreRefusedByBothEnds) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  constexpr uid_t kOther = 65534;
  ASSERT_EQ(chmod(folder_.c_str(), 0777), 0);
  Child child([&](const Descriptor& parent) {
    if (setuid(kOther) != 0) return false;
    const auto source = sender();
    tell(parent, pack(source->offer()));
    if (!hear<bool>(parent)) return false;
    tell(parent, source->stats().refused_peers);
    return true;
  });
  const SharedOffer offer = unpack(hear<OfferPacket>(child.socket()));
  EXPECT_THAT(SharedReceiver::connect(offer).error().message, HasSubstr("belongs to user 65534, expected a folder"));
  // Past the folder, to the check of the process itself.
  ASSERT_EQ(chown(std::filesystem::path(offer.path).parent_path().c_str(), 0, 0), 0);
  EXPECT_THAT(SharedReceiver::connect(offer).error().message,
              HasSubstr("the process at the other end (pid " + std::to_string(child.pid()) +
                        ") belongs to user 65534, expected 0"));
  tell(child.socket(), true);
  EXPECT_EQ(hear<std::uint64_t>(child.socket()), 1) << "the sender saw root and refused, too";
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(SharedPair, TheReceiverCanOnlyRead) {
  connect();
  const SharedBytes opened = receiver_->open(place()).value();
  auto* const byte = const_cast<std::byte*>(opened.bytes.data());
  EXPECT_EQ(mprotect(byte, kSlot, PROT_READ | PROT_WRITE), -1);
  EXPECT_EQ(errno, EACCES);
  EXPECT_DEATH(*const_cast<volatile std::byte*>(byte) = std::byte{1}, "");
}

TEST_F(SharedMemory, TheMemoryCannotBeMappedForWritingOrCut) {
  const auto source = sender();
  const Descriptor peer = connect_private(source->offer().path).value();
  Hello hello;
  std::memcpy(hello.token.data(), source->offer().secret.data(), sizeof(Token));
  tell(peer, hello);
  ASSERT_TRUE(source->place(payload(kSlot, 1)));
  Welcome welcome;
  Descriptor memory;
  ASSERT_EQ(receive_packet(peer, bytes_of(welcome), &memory), Packet::kDone);
  EXPECT_FALSE(Mapping(memory.fd(), kSlot, PROT_READ | PROT_WRITE));
  EXPECT_EQ(write(memory.fd(), &welcome, sizeof(welcome)), -1);
  EXPECT_EQ(ftruncate(memory.fd(), 0), -1);
  EXPECT_TRUE(Mapping(memory.fd(), kSlot, PROT_READ));
}

TEST_F(SharedMemory, AThousandConnectionsLeaveNothingBehind) {
  const auto mappings = [] {
    std::ifstream maps("/proc/self/maps");
    std::size_t count = 0;
    for (std::string line; std::getline(maps, line);) count += line.find("memfd:troupe") != std::string::npos;
    return count;
  };
  const std::size_t before = open_descriptors();
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const auto source = sender(4 * kSlot);
    auto receiver = SharedReceiver::connect(source->offer()).value();
    const auto reference = source->place(payload(kSlot, i)).value();
    if (i % 4 == 0) continue;  // a reference on the way, a receiver that never heard of the sender
    const auto opened = receiver->open(reference);
    ASSERT_TRUE(opened.ok());
    if (i % 4 == 1) receiver.reset();
  }
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_EQ(mappings(), 0);
  EXPECT_TRUE(folder_is_empty());
}

TEST_F(SharedPair, MemoryStaysWithinThePoolWhateverIsPlaced) {
  constexpr std::size_t kPool = 32 * kMiB;
  const auto shared_bytes = [] {
    std::ifstream status("/proc/self/status");
    std::size_t kib = 0;
    for (std::string word; status >> word;) {
      if (word == "RssShmem:") status >> kib;
    }
    return kib * 1024;
  };
  const std::size_t before = shared_bytes();
  connect(kPool);
  Rng rng(1);
  std::deque<SharedBytes> held;
  const std::vector<std::byte> source = payload(8 * kMiB, 1);
  std::uint64_t full = 0;
  for (int i = 0; i < 3000; ++i) {
    const std::size_t size = kSlot << rng.below(8);
    const auto reference = sender_->place(std::span(source).first(size - rng.below(kSlot / 2)));
    full += !reference && size > kSlot;
    if (reference) held.push_back(receiver_->open(*reference).value());
    while (held.size() > rng.below(24)) held.erase(held.begin() + static_cast<std::ptrdiff_t>(rng.below(held.size())));
    ASSERT_LE(sender_->stats().in_use_bytes, kPool);
  }
  EXPECT_GT(full, 0) << "the bound was never met";
  // Each of the two mappings of this process counts.
  EXPECT_LE(shared_bytes(), before + 2 * kPool);
  EXPECT_GT(shared_bytes(), before + kPool / 2);
}

TEST_F(SharedPair, ManyThreadsPlaceOpenAndDropAtOnce) {
  connect(4 * kMiB);
  constexpr std::uint64_t kEach = 300;
  std::mutex mutex;
  std::deque<std::pair<SharedReference, std::uint64_t>> sent;
  std::atomic<std::uint64_t> arrived = 0;
  std::atomic<std::uint64_t> wrong = 0;
  const auto place_all = [&](std::uint64_t thread) {
    for (std::uint64_t i = 0; i < kEach; ++i) {
      const std::uint64_t seed = thread * kEach + i;
      const auto bytes = payload(kSlot + seed % 7 * 20'000, seed);
      for (;;) {
        if (const auto reference = sender_->place(bytes)) {
          const std::lock_guard lock(mutex);
          sent.emplace_back(*reference, seed);
          break;
        }
        std::this_thread::yield();
      }
    }
  };
  const auto open_all = [&] {
    while (arrived.load() < 3 * kEach) {
      std::pair<SharedReference, std::uint64_t> next;
      {
        const std::lock_guard lock(mutex);
        if (sent.empty()) continue;
        next = sent.front();
        sent.pop_front();
      }
      const auto opened = receiver_->open(next.first);
      wrong += !opened.ok() || !same(opened->bytes, payload(kSlot + next.second % 7 * 20'000, next.second));
      ++arrived;
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::uint64_t i = 0; i < 3; ++i) threads.emplace_back(place_all, i);
    for (int i = 0; i < 2; ++i) threads.emplace_back(open_all);
  }
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(sender_->stats().in_use_bytes, 0);
}

}  // namespace
}  // namespace troupe::transport
