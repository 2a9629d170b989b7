// Whom the two ends of shared memory let in and what they believe: strangers, other users, peers that say what is
// false.
#include <troupe/transport/shared_memory.hpp>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include <troupe/tests/transport/shared_memory_fixture.hpp>

namespace troupe::transport {
namespace {

using ::testing::HasSubstr;

TEST_F(SharedPair, RefusesFalseReferences) {
  constexpr std::size_t kGranule = LendableMemory::kGranule;
  connect(kMiB, 8 * kLeast);
  const SharedReference held = lend(2 * kLeast);
  const SharedBytes bytes = receiver_->open(held).value();
  const SharedReference good = lend(2 * kLeast);
  const auto changed = [&](auto change) {
    SharedReference reference = good;
    change(reference);
    return refusal(reference);
  };
  EXPECT_THAT(changed([](auto& r) { r.memory ^= 1; }), HasSubstr("reference to memory"));
  EXPECT_THAT(changed([](auto& r) { r.offset += 64; }), HasSubstr("expected a multiple of 16384"));
  EXPECT_THAT(changed([](auto& r) { r.length = 0; }), HasSubstr("reference to 0 bytes at"));
  EXPECT_THAT(changed([](auto& r) { r.length = 8 * kLeast + 1; }), HasSubstr("inside of 524288"));
  EXPECT_THAT(changed([](auto& r) { r.length = ~std::uint64_t{0}; }), HasSubstr("inside of 524288"));
  EXPECT_THAT(changed([](auto& r) { r.offset = 8 * kLeast; }), HasSubstr("inside of 524288"));
  EXPECT_THAT(changed([](auto& r) { r.offset = ~std::uint64_t{0} / kGranule * kGranule; }),
              HasSubstr("inside of 524288"));
  EXPECT_THAT(changed([](auto& r) { r.sequence = 0; }), HasSubstr("stale"));
  EXPECT_THAT(changed([](auto& r) { r.sequence = 5000; }), HasSubstr("reference 5000 after 1, of which 0 are missing"));
  EXPECT_THAT(refusal(held), HasSubstr("stale reference 1, expected one after 1"));
  EXPECT_EQ(receiver_->stats().refused, 10);
  EXPECT_EQ(receiver_->stats().held_bytes, 2 * kLeast) << "a refusal changes nothing";
  EXPECT_EQ(refusal(good), "opened");
  EXPECT_THAT(refusal(good), HasSubstr("stale reference 2, expected one after 2"));
}

/// A peer that knows the secret and does as it likes from here on.
Descriptor let_in(const SharedOffer& offer) {
  Descriptor peer = connect_private(offer.path).value();
  Hello hello;
  std::memcpy(hello.token.data(), offer.secret.data(), sizeof(Token));
  tell(peer, hello);
  return peer;
}

TEST_F(SharedMemory, CountsFalseReleasesAndKeepsWhatIsLent) {
  const auto source = sender();
  const Descriptor peer = let_in(source->offer());
  const SharedReference reference = source.lend(payload(2 * kLeast, 1)).value();
  const auto false_releases = [&](const Release& release) {
    tell(peer, release);
    return source->stats().false_releases;
  };
  EXPECT_EQ(false_releases({reference.sequence + 1}), 1);
  EXPECT_EQ(false_releases({0}), 2);
  EXPECT_EQ(source->stats().lent_bytes, 2 * kLeast);
  EXPECT_EQ(false_releases({reference.sequence}), 2);
  EXPECT_EQ(source->stats().lent_bytes, 0);
  EXPECT_EQ(false_releases({reference.sequence}), 3) << "twice";
  EXPECT_TRUE(source->stats().connected);
  tell(peer, 'x');
  EXPECT_FALSE(source->stats().connected) << "no release at all";
}

TEST_F(SharedPair, OnlyWhoKnowsTheSecretGetsTheMemory) {
  sender_ = sender();
  SharedOffer wrong = sender_->offer();
  wrong.secret[0] ^= 1;
  const auto stranger = SharedReceiver::connect(wrong).value();
  EXPECT_FALSE(sender_.lend(payload(kLeast, 1)));
  EXPECT_EQ(sender_->stats().refused_peers, 1);
  EXPECT_THAT(stranger->open({}).error().message, HasSubstr("the sender is gone"));
  receiver_ = SharedReceiver::connect(sender_->offer()).value();
  EXPECT_EQ(refusal(lend()), "opened") << "the linked peer still gets in";
}

TEST_F(SharedPair, MemoryOfASenderWithoutTheSecretIsNotRead) {
  sender_ = sender();
  SharedOffer offer = sender_->offer();
  offer.secret[63] ^= 1;
  receiver_ = SharedReceiver::connect(offer).value();
  EXPECT_EQ(refusal(lend()), "shared memory: the sender does not know the link's secret");
}

TEST_F(SharedPair, SilentStrangersDoNotKeepTheReceiverOut) {
  sender_ = sender();
  std::vector<Descriptor> strangers;
  for (int i = 0; i < 20; ++i) {
    strangers.push_back(connect_private(sender_->offer().path).value());
    EXPECT_FALSE(sender_->stats().connected);
  }
  receiver_ = SharedReceiver::connect(sender_->offer()).value();
  EXPECT_EQ(refusal(lend()), "opened");
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

TEST_F(SharedMemory, RefusesMemoryThatTheSenderCouldCutOff) {
  const auto memory = [](off_t bytes, int seals) {
    Descriptor made(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    TROUPE_CHECK(ftruncate(made.fd(), bytes) == 0 && fcntl(made.fd(), F_ADD_SEALS, seals) == 0, "memfd");
    return made;
  };
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE;
  const Descriptor good = memory(kLeast, kSeals);
  const Descriptor unsealed = memory(kLeast, 0);
  const Descriptor empty = memory(0, kSeals);
  const Descriptor odd = memory(kLeast + 1, kSeals);
  const Descriptor huge = memory(off_t{1} << 50, kSeals);
  const std::size_t before = open_descriptors();
  EXPECT_THAT(refusal_of_memory(folder_, {good.fd()}), HasSubstr("expected some inside of 65536"));
  EXPECT_THAT(refusal_of_memory(folder_, {unsealed.fd()}), HasSubstr("seals 0x0, expected 0x12 among them"));
  EXPECT_THAT(refusal_of_memory(folder_, {empty.fd()}), HasSubstr("a memory of 0 bytes"));
  EXPECT_THAT(refusal_of_memory(folder_, {odd.fd()}), HasSubstr("a memory of 65537 bytes"));
  EXPECT_THAT(refusal_of_memory(folder_, {huge.fd()}), HasSubstr("a memory of 1125899906842624 bytes"));
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
  EXPECT_THAT(refusal([](auto& offer) { offer.host = "elsewhere"; }), HasSubstr("the peer is on another machine"));
  // Two containers of one machine.
  const std::string here = host_identity().value();
  const std::string apart = here.substr(0, here.find("/pid")) + "/pid1/mnt1";
  EXPECT_THAT(refusal([&](auto& offer) { offer.host = apart; }),
              HasSubstr("the peer is on this machine, but in namespaces of its own, in " + apart));
  EXPECT_TRUE(same_machine(here, apart));
  EXPECT_FALSE(same_machine(here, "elsewhere/net1/pid1/mnt1"));
  EXPECT_THAT(refusal([](auto& offer) { offer.secret.pop_back(); }), HasSubstr("a secret of 63 bytes, expected 64"));
  EXPECT_THAT(refusal([](auto& offer) { offer.path += "-gone"; }), HasSubstr("cannot connect to"));
  EXPECT_THAT(refusal([](auto& offer) { offer.path += std::string(200, 'x'); }), HasSubstr("at most 107 allowed"));
  EXPECT_THAT(refusal([](auto& offer) { offer.path = "/nowhere/socket"; }), HasSubstr("no folder /nowhere"));
  EXPECT_THAT(refusal([](auto& offer) { offer.path = "socket"; }), HasSubstr("no folder"));
  ASSERT_EQ(chmod(std::filesystem::path(source->offer().path).parent_path().c_str(), 0750), 0);
  EXPECT_THAT(refusal([](auto&) {}), HasSubstr("has mode 40750"));
}

TEST_F(SharedMemory, ProcessesOfOtherUsersAreRefusedByBothEnds) {
  constexpr uid_t kOther = 65534;
  const auto give = [&](uid_t user) { return chown(folder_.c_str(), user, user) == 0; };
  Child tried([](const Descriptor&) { return setuid(kOther) == 0; });
  // A container may take these rights away from root.
  const bool may = tried.wait() == 0 && give(kOther) && give(geteuid());
  if (geteuid() != 0 || !may) GTEST_SKIP() << "needs root: may not become another user (CAP_SETUID, CAP_CHOWN)";
  ASSERT_EQ(chmod(folder_.c_str(), 0777), 0);
  ASSERT_EQ(chmod(::testing::TempDir().c_str(), 0711), 0) << "which is this program's own, and for its user alone";
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
  const SharedBytes opened = receiver_->open(lend()).value();
  auto* const byte = const_cast<std::byte*>(opened.bytes.data());
  EXPECT_EQ(mprotect(byte, kLeast, PROT_READ | PROT_WRITE), -1);
  EXPECT_EQ(errno, EACCES);
  EXPECT_DEATH(*const_cast<volatile std::byte*>(byte) = std::byte{1}, "");
}

TEST_F(SharedMemory, TheMemoryCannotBeMappedForWritingOrCut) {
  const auto source = sender();
  const Descriptor peer = let_in(source->offer());
  ASSERT_TRUE(source.lend(payload(kLeast, 1)));
  Welcome welcome;
  Descriptor memory;
  ASSERT_EQ(receive_packet(peer, bytes_of(welcome), &memory), Packet::kDone);
  EXPECT_FALSE(Mapping(memory.fd(), kLeast, PROT_READ | PROT_WRITE));
  EXPECT_EQ(write(memory.fd(), &welcome, sizeof(welcome)), -1);
  EXPECT_EQ(ftruncate(memory.fd(), 0), -1);
  EXPECT_TRUE(Mapping(memory.fd(), kLeast, PROT_READ));
}

}  // namespace
}  // namespace troupe::transport
