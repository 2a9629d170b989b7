// The listener over loopback: who gets in, and that nobody who does not can hold up those who do.
#include <troupe/transport/listener.hpp>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <filesystem>
#include <mutex>
#include <thread>

#include <troupe/tests/transport/certificates.hpp>
#include <troupe/tests/transport/eventually.hpp>
#include <troupe/transport/detail/descriptor.hpp>
#include <troupe/transport/detail/socket_address.hpp>
#include <troupe/transport/dial.hpp>

namespace troupe::transport {
namespace {

using testing::dial_raw;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using troupe::testing::eventually;
using namespace std::chrono_literals;

const Identity kListeningChief{"run-1", {"chief"}, "node-0"};
const Identity kActor{"run-1", {"actor"}, "node-1"};

/// What the listener hands out, for a test to wait for.
class Inbox {
 public:
  void put(std::unique_ptr<Link> link) {
    const std::lock_guard lock(mutex_);
    links_.push_back(std::move(link));
    changed_.notify_all();
  }
  /// Null after 20 s.
  std::unique_ptr<Link> take() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, 20s, [&] { return !links_.empty(); })) return nullptr;
    auto link = std::move(links_.front());
    links_.pop_front();
    return link;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Link>> links_;
};

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator fds("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(fds), end(fds)));
}

class ListenerTest : public ::testing::Test {
 protected:
  std::unique_ptr<Listener> listen(LinkOptions options = {}, const Address& address = {"127.0.0.1", 0}) {
    options.admit = [](const Identity& peer) -> Status {
      if (peer.has_role("actor")) return {};
      return Error{Code::kUnavailable, "TRP-E161 only actors here"};
    };
    auto listener = Listener::start(address, chief_, options, [this](auto link) { inbox_.put(std::move(link)); });
    EXPECT_TRUE(listener.ok()) << listener.error().message;
    return std::move(listener).value();
  }
  /// A connection that has said nothing yet.
  Descriptor knock(const Listener& listener) {
    auto socket = dial(listener.address(), 5s);
    EXPECT_TRUE(socket.ok()) << socket.error().message;
    return Descriptor(socket.ok() ? *socket : -1);
  }
  /// Dials like a node and returns how long it took to be let in, at least a few ms of computing.
  Duration let_in(const Listener& listener) {
    const SteadyClock clock;
    const Duration start = clock.now();
    auto link = Link::open(knock(listener).release(), actor_, {.admit = only(kListeningChief)});
    EXPECT_TRUE(link.ok()) << link.error().message;
    EXPECT_NE(inbox_.take(), nullptr);
    return clock.now() - start;
  }
  /// The best of some, because other programs use this machine too.
  Duration let_in_best(const Listener& listener) {
    Duration best = let_in(listener);
    for (int i = 0; i < 4; ++i) best = std::min(best, let_in(listener));
    return best;
  }
  /// How long it may take beside strangers: 100 ms, or more on a machine that is slow without them.
  Duration let_in_bound(const Listener& listener) { return std::max<Duration>(100ms, 3 * let_in_best(listener)); }
  /// Whether the peer closes the connection within `time`; takes what it says before.
  static bool closes(const Descriptor& socket, Duration time) {
    const SteadyClock clock;
    const Duration deadline = clock.now() + time;
    char bytes[4096];
    while (clock.now() < deadline) {
      pollfd entry{socket.fd(), POLLIN, 0};
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - clock.now());
      if (poll(&entry, 1, static_cast<int>(left.count())) == 1 && recv(socket.fd(), bytes, sizeof(bytes), 0) <= 0) {
        return true;
      }
    }
    return false;
  }
  static void say(const Descriptor& socket, std::string_view bytes) {
    (void)!send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  static std::uint64_t rejected(const Listener& listener, const std::string& code) {
    const auto counts = listener.rejected();
    const auto found = counts.find(code);
    return found == counts.end() ? 0 : found->second;
  }

  const WallTime now_ = std::chrono::system_clock::now();
  const Authority authority_ = Authority::create("run-1", now_).value();
  const Credentials chief_ = authority_.issue(kListeningChief, now_).value();
  const Credentials actor_ = authority_.issue(kActor, now_).value();
  Inbox inbox_;
};

TEST_F(ListenerTest, HandsOutLinksThatCarryFrames) {
  for (const char* host : {"127.0.0.1", "localhost", "::1"}) {
    auto started =
        Listener::start({host, 0}, chief_, {.admit = only(kActor)}, [&](auto link) { inbox_.put(std::move(link)); });
    if (!started.ok() && std::string_view(host) == "::1") continue;  // a machine without IPv6
    ASSERT_TRUE(started.ok()) << started.error().message;
    const auto dialled = Link::open(dial((*started)->address(), 5s).value(), actor_, {.admit = only(kListeningChief)});
    ASSERT_TRUE(dialled.ok()) << dialled.error().message;
    const auto accepted = inbox_.take();
    ASSERT_NE(accepted, nullptr);
    EXPECT_EQ(accepted->peer(), kActor);
    EXPECT_EQ((*dialled)->peer(), kListeningChief);
    const auto text = std::as_bytes(std::span("hello"));
    ASSERT_TRUE((*dialled)->send(FrameKind::kData, text, 5s).ok());
    EXPECT_TRUE(std::ranges::equal(accepted->receive(5s).value().payload, text));
    ASSERT_TRUE(accepted->send(FrameKind::kControl, text, 5s).ok());
    EXPECT_EQ((*dialled)->receive(5s).value().payload.size(), text.size());
    EXPECT_TRUE((*started)->rejected().empty());
  }
}

TEST_F(ListenerTest, ListensWhereItWasToldAndNowhereElse) {
  const auto listener = listen();
  EXPECT_EQ(listener->address().host, "127.0.0.1");
  EXPECT_NE(listener->address().port, 0);
  EXPECT_THAT(dial({"127.0.0.2", listener->address().port}, 5s).error().message, HasSubstr("Connection refused"));
  const auto start = [&](const Address& address) {
    return Listener::start(address, chief_, {.admit = only(kActor)}, [](auto) {}).error();
  };
  EXPECT_EQ(start(listener->address()).code, Code::kUnavailable);
  EXPECT_THAT(start(listener->address()).message, HasSubstr("Address already in use"));
  EXPECT_EQ(start({"", 0}).message, "look up: no host given") << "never all interfaces by accident";
  EXPECT_THAT(start({"192.0.2.1", 0}).message, StartsWith("listen on 192.0.2.1:0: "));
}

TEST_F(ListenerTest, WithoutCredentialsItDoesNotStart) {
  const auto error = [&](const Credentials& credentials) {
    return Listener::start({"127.0.0.1", 0}, credentials, {.admit = only(kActor)}, [](auto) {}).error();
  };
  EXPECT_EQ(error({}).code, Code::kInvalidArgument);
  EXPECT_EQ(error({chief_.authority, chief_.certificate, ""}).code, Code::kInvalidArgument);
  EXPECT_EQ(error({"", chief_.certificate, chief_.key}).code, Code::kInvalidArgument);
}

TEST_F(ListenerTest, ClosesOnStrangersAtOnceAndCountsWhy) {
  const auto listener = listen();
  const Duration bound = let_in_bound(*listener);
  const std::string tls12 = "\x16\x03\x01";  // the start of a record, then something else
  const std::vector<std::string> garbage = {
      "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
      std::string(100000, '\0'),
      std::string(100000, '\xff'),
      std::string("\x54\x52\x01\x00\xff\xff\xff\xff", 8),  // a frame's header without TLS
      tls12 + std::string(1000, 'x'),
      "\r\n",
  };
  for (const std::string& bytes : garbage) {
    const Descriptor socket = knock(*listener);
    say(socket, bytes);
    EXPECT_TRUE(closes(socket, 1s)) << fmt::format("{:.10}", bytes);
  }
  EXPECT_EQ(rejected(*listener, "TRP-S701"), garbage.size());
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    std::string noise(1 + seed * 7 % 300, '\0');
    for (std::uint64_t x = seed; char& c : noise) c = static_cast<char>((x = x * 6364136223846793005u + 1) >> 56);
    const Descriptor socket = knock(*listener);
    say(socket, noise);
    shutdown(socket.fd(), SHUT_WR);
    EXPECT_TRUE(closes(socket, 1s)) << "seed " << seed;
  }
  knock(*listener);
  EXPECT_LT(let_in_best(*listener), bound);
}

TEST_F(ListenerTest, LetsInOnlyCertificatesOfTheRunThatAreValidNow) {
  const auto listener = listen();
  const auto refusal = [&](const Credentials& credentials) {
    return Link::open(knock(*listener).release(), credentials, {.admit = only(kListeningChief)}).error().message;
  };
  Credentials other = Authority::create("run-1", now_).value().issue(kActor, now_).value();
  other.authority = authority_.certificate();
  EXPECT_THAT(refusal(other), HasSubstr("refused this node: tlsv1 alert unknown ca"));
  EXPECT_THAT(refusal(authority_.issue(kActor, now_ - 48h, 24h).value()), HasSubstr("certificate expired"));
  EXPECT_THAT(refusal(authority_.issue(kActor, now_ + 2h).value()), HasSubstr("refused this node: "));
  EXPECT_THAT(refusal(chief_), HasSubstr("refused this node: TRP-E161 only actors here"));
  const auto raw = [&](int version, const Credentials* credentials) {
    std::jthread([&, fd = knock(*listener).release()] { dial_raw(fd, version, credentials); });
  };
  raw(TLS1_2_VERSION, &actor_);
  raw(TLS1_3_VERSION, nullptr);
  for (int i = 0; i < 500 && rejected(*listener, "TRP-S710") < 5; ++i) std::this_thread::sleep_for(10ms);
  EXPECT_EQ(rejected(*listener, "TRP-S710"), 5u);
  EXPECT_EQ(rejected(*listener, "TRP-E161"), 1u);
  let_in(*listener);
}

TEST_F(ListenerTest, ThreeHundredSilentPeersHoldUpNobody) {
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
  const rlimit usual{std::min<rlim_t>(old.rlim_cur, 1024), old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &usual), 0);
  const auto listener = listen({.handshake_timeout = 1s});
  const Duration bound = let_in_bound(*listener);
  std::deque<Descriptor> mute;
  for (int i = 0; i < 300; ++i) mute.push_back(knock(*listener));
  EXPECT_LT(let_in_best(*listener), bound);
  // The oldest had to go for the newest, the rest goes at the deadline.
  for (int i = 0; i < 44; ++i) EXPECT_TRUE(closes(mute[static_cast<std::size_t>(i)], 1s)) << i;
  for (const Descriptor& socket : mute) EXPECT_TRUE(closes(socket, 3s));
  EXPECT_EQ(rejected(*listener, "TRP-S702"), 300u);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
}

/// Keeps so many connections to the listener, and dials again what is closed, as fast as it can.
class Crowd {
 public:
  Crowd(const Listener& listener, std::size_t count, std::string words)
      : thread_([address = listener.address(), count, words = std::move(words)](std::stop_token stop) {
          std::deque<Descriptor> mute;
          while (!stop.stop_requested()) {
            const auto socket = dial(address, 5s, stop);
            if (!socket.ok()) continue;
            mute.emplace_back(*socket);
            if (!words.empty()) (void)!::send(mute.back().fd(), words.data(), words.size(), MSG_NOSIGNAL);
            if (mute.size() > count) mute.pop_front();
          }
        }) {}

 private:
  std::jthread thread_;
};

TEST_F(ListenerTest, ACrowdThatKeepsComingPushesOutNobodyWhoSpeaks) {
  // The first bytes of a hello whose rest never comes.
  const std::string half({0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, static_cast<char>(0xfc), 0x03, 0x03});
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
  for (const std::string& words : {std::string(), half}) {
    const rlimit tight{std::min<rlim_t>(old.rlim_cur, 800), old.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &tight), 0);
    const auto listener = listen();  // has room for 200 of them, or half as many that have begun
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
    const Crowd crowd(*listener, 150, words), more(*listener, 150, words);
    ASSERT_TRUE(eventually([&] { return rejected(*listener, "TRP-S702") > 300; }, 60s));
    // Hundreds of strangers come during each of them. Who was not scheduled for a moment dials again, as nodes do.
    for (int i = 0; i < 20; ++i) {
      const auto deadline = std::chrono::steady_clock::now() + 10s;  // of a machine that runs other tests, too
      auto link = dial_link(listener->address(), actor_, {.admit = only(kListeningChief)}, 5s);
      for (; !link.ok(); link = dial_link(listener->address(), actor_, {.admit = only(kListeningChief)}, 5s)) {
        ASSERT_LT(std::chrono::steady_clock::now(), deadline) << words.size() << " bytes: " << link.error().message;
      }
      ASSERT_NE(inbox_.take(), nullptr);
    }
  }
}

TEST_F(ListenerTest, WithFewDescriptorsStrangersTakeFewOfThem) {
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
  const std::size_t own = open_descriptors();
  const rlimit tight{std::min<rlim_t>(old.rlim_cur, 200), old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &tight), 0);
  const auto listener = listen();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);  // this process is the strangers' too
  std::deque<Descriptor> mute;
  for (int i = 0; i < 300; ++i) mute.push_back(knock(*listener));
  EXPECT_TRUE(eventually([&] { return rejected(*listener, "TRP-S702") >= 300 - 50; }, 20s))
      << rejected(*listener, "TRP-S702");
  EXPECT_LT(open_descriptors(), own + 300 + 50 + 20);
  let_in(*listener);
}

TEST_F(ListenerTest, ATricklingPeerMeetsTheDeadlineForAllOfTheHandshake) {
  const auto listener = listen({.handshake_timeout = 1s});
  const Duration bound = let_in_bound(*listener);
  const Descriptor socket = knock(*listener);
  std::jthread peer([&](std::stop_token stop) {
    const char record[] = {0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, static_cast<char>(0xfc), 0x03, 0x03};
    for (std::size_t i = 0; i < sizeof(record) && !stop.stop_requested(); ++i) {
      say(socket, {record + i, 1});
      std::this_thread::sleep_for(150ms);
    }
  });
  EXPECT_LT(let_in_best(*listener), bound);
  EXPECT_TRUE(closes(socket, 3s));
  EXPECT_EQ(rejected(*listener, "TRP-S702"), 1u);
}

TEST_F(ListenerTest, AThousandStrangersLeaveNothingBehind) {
  const auto listener = listen();
  let_in(*listener);
  const std::size_t before = open_descriptors();
  for (int i = 0; i < 1000; ++i) say(knock(*listener), i % 2 == 0 ? "GET / HTTP/1.1\r\n\r\n" : "");
  let_in(*listener);
  for (int i = 0; i < 500 && open_descriptors() > before; ++i) std::this_thread::sleep_for(10ms);
  EXPECT_LE(open_descriptors(), before);
}

TEST_F(ListenerTest, OutOfDescriptorsItWaitsWithoutSpinning) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer of undefined behaviour reads memory through a pipe, and there are no descriptors";
#endif
  const auto listener = listen();
  let_in(*listener);
  Descriptor client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
  const rlimit tight{std::min<rlim_t>(old.rlim_cur, 256), old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &tight), 0);
  std::vector<Descriptor> all;
  for (int fd = dup(0); fd >= 0; fd = dup(0)) all.emplace_back(fd);

  const auto cpu_time = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return std::chrono::seconds(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           std::chrono::microseconds(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
  };
  const auto used = cpu_time();
  sockaddr_in address{.sin_family = AF_INET, .sin_port = htons(listener->address().port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(connect(client.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_FALSE(closes(client, 500ms)) << "it waits in the queue";
  EXPECT_LT(cpu_time() - used, 250ms);
  EXPECT_GE(rejected(*listener, "TRP-W170"), 1u);
  EXPECT_LE(rejected(*listener, "TRP-W170"), 10u);

  all.clear();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
  EXPECT_TRUE(Link::open(client.release(), actor_, {.admit = only(kListeningChief)}).ok());
}

TEST_F(ListenerTest, StopsAtOnceWithHandshakesInTheAir) {
  const auto listener = listen();
  std::vector<Descriptor> mute;
  for (int i = 0; i < 10; ++i) mute.push_back(knock(*listener));
  const SteadyClock clock;
  const Duration start = clock.now();
  listener->stop();
  listener->stop();
  EXPECT_LT(clock.now() - start, 1s);
  for (const Descriptor& socket : mute) EXPECT_TRUE(closes(socket, 1s));
}

TEST(Dial, GivesUpAtItsDeadlineAndWhenStopped) {
  // A full queue of connections that nobody accepts: the system then ignores those who knock.
  const Descriptor full(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{.sin_family = AF_INET};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(full.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(full.fd(), 0), 0);
  socklen_t size = sizeof(address);
  getsockname(full.fd(), reinterpret_cast<sockaddr*>(&address), &size);
  const Address target{"127.0.0.1", ntohs(address.sin_port)};
  std::vector<Descriptor> filling;
  for (auto socket = dial(target, 100ms); socket.ok(); socket = dial(target, 100ms)) {
    filling.emplace_back(*socket);
    ASSERT_LT(filling.size(), 100u);
  }
  const SteadyClock clock;
  Duration start = clock.now();
  const auto late = dial(target, 300ms);
  EXPECT_EQ(late.error().code, Code::kDeadlineExceeded);
  EXPECT_EQ(late.error().message, "dial " + to_string(target) + ": no answer in time");
  EXPECT_GE(clock.now() - start, 300ms);
  EXPECT_LT(clock.now() - start, 3s);
  std::stop_source source;
  std::jthread stopper([&] {
    std::this_thread::sleep_for(50ms);
    source.request_stop();
  });
  start = clock.now();
  EXPECT_THAT(dial(target, 20s, source.get_token()).error().message, HasSubstr("stopped"));
  EXPECT_LT(clock.now() - start, 5s);
}

TEST(Dial, UnknownHostsAreSaidSo) {
  EXPECT_THAT(dial({"no-such-host.invalid", 1}, 20s).error().message, StartsWith("look up \"no-such-host.invalid\": "));
  EXPECT_EQ(dial({"", 1}, 1s).error().code, Code::kInvalidArgument);
}

TEST(Address, IsReadAsPeopleWriteIt) {
  EXPECT_EQ(parse_address("10.0.0.2:7000").value(), (Address{"10.0.0.2", 7000}));
  EXPECT_EQ(parse_address("learner-0.example:0").value(), (Address{"learner-0.example", 0}));
  EXPECT_EQ(parse_address("[fe80::1%eth0]:65535").value(), (Address{"fe80::1%eth0", 65535}));
  for (const char* text : {"10.0.0.2:7000", "host:1", "[::1]:7000"}) {
    EXPECT_EQ(to_string(parse_address(text).value()), text);
  }
  for (const char* text : {"", ":", "host", "host:", ":1", "host:65536", "host:-1", "host:1 ", "host:0x1", "::1:7000",
                           "[]:1", "[::1]", "[::1]7000", "[%]:7", "[host]:7", "a b:1", "user@host:1", "host/x:1"}) {
    EXPECT_EQ(parse_address(text).error().code, Code::kInvalidArgument) << text;
  }
  EXPECT_FALSE(parse_address(std::string(300, 'a') + ":1").ok());
}

}  // namespace
}  // namespace troupe::transport
