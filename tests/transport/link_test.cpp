// The link over socket pairs: frames of all sizes, who is let in, and peers that stall, lie or die.
#include <troupe/transport/link.hpp>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <thread>

#include <troupe/tests/transport/certificates.hpp>

namespace troupe::transport {
namespace {

using testing::dial_raw;
using ::testing::HasSubstr;
using testing::issue_odd;
using testing::raw_welcome;
using ::testing::StartsWith;
using namespace std::chrono_literals;

const Identity kDialler{"run-1", {"actor"}, "node-1"};
const Identity kAcceptor{"run-1", {"replay"}, "node-2"};

using LinkResult = Result<std::unique_ptr<Link>>;

struct Sockets {
  Sockets() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0); }
  int fds[2];
};

/// Both ends at once, each on its own thread, as between two nodes.
std::pair<LinkResult, LinkResult> connect(const Credentials& dialler, const LinkOptions& dial,
                                          const Credentials& acceptor, const LinkOptions& accept) {
  const Sockets sockets;
  auto other = std::async(std::launch::async, [&] { return Link::open(sockets.fds[1], acceptor, accept); });
  LinkResult first = Link::open(sockets.fds[0], dialler, dial);
  return {std::move(first), other.get()};
}

class LinkTest : public ::testing::Test {
 protected:
  std::pair<LinkResult, LinkResult> connect_good(FrameLimits limits = {}) {
    return connect(dialler_, {.side = Side::kDial, .admit = only(kAcceptor), .limits = limits}, acceptor_,
                   {.side = Side::kAccept, .admit = only(kDialler), .limits = limits});
  }
  /// Both ends refuse when the dialler shows `credentials`.
  std::pair<std::string, std::string> refusals(const Credentials& credentials) {
    auto [dial, accept] = connect(credentials, {.side = Side::kDial, .admit = only(kAcceptor)}, acceptor_,
                                  {.side = Side::kAccept, .admit = only(kDialler)});
    return {dial.ok() ? "accepted" : dial.error().message, accept.ok() ? "accepted" : accept.error().message};
  }

  const WallTime now_ = std::chrono::system_clock::now();
  const Authority authority_ = Authority::create("run-1", now_).value();
  const Credentials dialler_ = authority_.issue(kDialler, now_).value();
  const Credentials acceptor_ = authority_.issue(kAcceptor, now_).value();
};

std::vector<std::byte> pattern(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 31 + i / 997);
  return bytes;
}

TEST_F(LinkTest, CarriesFramesOfAllSizesInOrder) {
  auto [dial, accept] = connect_good();
  ASSERT_TRUE(dial.ok() && accept.ok());
  const std::vector<std::size_t> sizes = {0, 1, 15, 16384, 16385, 65536, 1 << 20, 5'000'001, 3, 1 << 20};
  auto sender = std::async(std::launch::async, [&, link = dial->get()] {
    for (std::size_t size : sizes) {
      const auto bytes = pattern(size);
      const std::span<const std::byte> parts[] = {std::span(bytes).first(size / 3), std::span(bytes).subspan(size / 3)};
      if (!link->send(FrameKind::kData, parts, 20s).ok()) return false;
    }
    return true;
  });
  for (std::size_t size : sizes) {
    const auto got = (*accept)->receive(20s);
    ASSERT_TRUE(got.ok()) << got.error().message;
    EXPECT_EQ(got->kind, FrameKind::kData);
    ASSERT_TRUE(std::ranges::equal(got->payload, pattern(size))) << size;
  }
  EXPECT_TRUE(sender.get());
  // And back, on the same connection.
  ASSERT_TRUE((*accept)->send(FrameKind::kControl, pattern(9), 5s).ok());
  EXPECT_EQ((*dial)->receive(5s).value().kind, FrameKind::kControl);
}

TEST_F(LinkTest, QueuedFramesGoOutTogetherAtTheFlush) {
  auto [dial, accept] = connect_good();
  const auto bytes = pattern(100);
  const std::span<const std::byte> parts[] = {bytes};
  for (int i = 0; i < 20; ++i) ASSERT_TRUE((*dial)->queue(FrameKind::kData, parts, 5s).ok());
  EXPECT_FALSE((*accept)->wait(50ms).value()) << "nothing is sent before";
  ASSERT_TRUE((*dial)->flush(5s).ok());
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE((*accept)->wait(5s).value());
    EXPECT_TRUE(std::ranges::equal((*accept)->receive(5s).value().payload, bytes)) << i;
  }
  EXPECT_FALSE((*accept)->wait(0s).value());
}

TEST_F(LinkTest, APayloadCanBeReceivedInParts) {
  auto [dial, accept] = connect_good();
  const auto bytes = pattern(50000);
  ASSERT_TRUE((*dial)->send(FrameKind::kData, bytes, 5s).ok());
  EXPECT_EQ((*accept)->receive_header(5s).value().length, bytes.size());
  std::vector<std::byte> got(bytes.size());
  for (std::size_t at = 0, part = 1; at < got.size(); at += part, part = std::min(3 * part, got.size() - at)) {
    ASSERT_TRUE((*accept)->receive_payload(std::span(got).subspan(at, part), 5s).ok());
  }
  EXPECT_EQ(got, bytes);
}

TEST_F(LinkTest, GoesOnThroughChangesOfTheKey) {
  const auto [dial, accept] = connect(dialler_, {.side = Side::kDial, .admit = only(kAcceptor), .rekey_bytes = 50000},
                                      acceptor_, {.side = Side::kAccept, .admit = only(kDialler), .rekey_bytes = 1});
  const auto bytes = pattern(1 << 20);
  auto sender = std::async(std::launch::async, [&, link = dial->get()] {
    return link->send(FrameKind::kData, bytes, 5s).ok() && link->send(FrameKind::kData, bytes, 5s).ok();
  });
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(std::ranges::equal((*accept)->receive(5s).value().payload, bytes));
  EXPECT_TRUE(sender.get());
  for (int i = 0; i < 2; ++i) ASSERT_TRUE((*accept)->send(FrameKind::kControl, pattern(9), 5s).ok());
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(std::ranges::equal((*dial)->receive(5s).value().payload, pattern(9)));
}

TEST_F(LinkTest, KnowsWhoIsAtTheOtherEnd) {
  auto [dial, accept] = connect_good();
  EXPECT_EQ((*dial)->peer(), kAcceptor);
  EXPECT_EQ((*accept)->peer(), kDialler);
}

TEST_F(LinkTest, OnlyACertificateOfTheRunIsLetIn) {
  EXPECT_EQ(refusals(dialler_), (std::pair<std::string, std::string>("accepted", "accepted")));
  EXPECT_THAT(refusals(authority_.issue(kDialler, now_ - 31 * 24h, 24h).value()).second,
              StartsWith("TRP-S710 peer certificate rejected: expired " + format_time(now_ - 30 * 24h)));
  EXPECT_THAT(refusals(authority_.issue(kDialler, now_ + 2h).value()).second,
              StartsWith("TRP-S710 peer certificate rejected: not valid before " + format_time(now_ + 1h)));
  const std::string stranger = "TRP-S710 peer certificate rejected: not issued by this run's authority (a local peer)";
  Credentials other = Authority::create("run-1", now_).value().issue(kDialler, now_).value();
  EXPECT_EQ(refusals(other).first, stranger) << "it does not trust us either";
  other.authority = authority_.certificate();
  EXPECT_EQ(refusals(other).second, stranger);
}

TEST_F(LinkTest, ARefusedDiallerIsToldWhy) {
  EXPECT_EQ(refusals(authority_.issue(kDialler, now_ - 31 * 24h, 24h).value()).first,
            "link: a local peer refused this node: sslv3 alert certificate expired");
  const auto [dial, accept] = refusals(authority_.issue({"run-1", {"actor"}, "node-9"}, now_).value());
  EXPECT_EQ(accept,
            "TRP-S710 peer certificate rejected: it is of troupe://run-1/actor/node-9, expected "
            "troupe://run-1/actor/node-1");
  EXPECT_EQ(dial, "link: a local peer refused this node: " + accept);
  // And the other way round.
  const auto [left, right] = connect(dialler_, {.side = Side::kDial, .admit = only(kDialler)}, acceptor_,
                                     {.side = Side::kAccept, .admit = only(kDialler)});
  EXPECT_EQ(right.error().message, "link: a local peer refused this node: " + left.error().message);
}

TEST_F(LinkTest, TheCertificateMustNameOneIdentityAndNothingElse) {
  for (const char* names :
       {"", "DNS:node-1", "URI:troupe://run-1/actor", "URI:http://run-1/actor/node-1",
        "DNS:a,URI:troupe://run-1/actor/node-1", "URI:troupe://run-1/actor/node-1,URI:troupe://run-1/chief/node-0"}) {
    const auto [dial, accept] = refusals(issue_odd(authority_, {.names = names}));
    EXPECT_THAT(accept, StartsWith("TRP-S710 peer certificate rejected: ")) << names;
    EXPECT_THAT(dial, HasSubstr(accept)) << names;
  }
}

TEST_F(LinkTest, PeersWithoutAProtocolInCommonBothSayWhich) {
  const auto errors = [&](ProtocolRange dial, ProtocolRange accept) {
    auto [first, second] = connect(dialler_, {.side = Side::kDial, .admit = only(kAcceptor), .protocol = dial},
                                   acceptor_, {.side = Side::kAccept, .admit = only(kDialler), .protocol = accept});
    return std::pair(first.ok() ? "up" : first.error().message, second.ok() ? "up" : second.error().message);
  };
  using Errors = std::pair<std::string, std::string>;
  EXPECT_EQ(errors({3, 3}, {4, 4}),
            Errors("TRP-E160 peer speaks protocol 4, this node 3..3: upgrade one of them (a local peer)",
                   "TRP-E160 peer speaks protocol 3, this node 4..4: upgrade one of them (a local peer)"));
  EXPECT_EQ(errors({4, 6}, {1, 3}),
            Errors("TRP-E160 peer speaks protocol 1..3, this node 4..6: upgrade one of them (a local peer)",
                   "TRP-E160 peer speaks protocol 4..6, this node 1..3: upgrade one of them (a local peer)"));
  EXPECT_EQ(errors({3, 4}, {4, 9}), Errors("up", "up"));
}

TEST_F(LinkTest, OldTlsWeakKeysAndMissingCertificatesAreRefused) {
  const auto refusal = [&](int max_version, const Credentials* credentials) {
    const Sockets sockets;
    std::jthread client([&] { dial_raw(sockets.fds[0], max_version, credentials, raw_welcome()); });
    const auto result = Link::open(sockets.fds[1], acceptor_, {.side = Side::kAccept, .admit = only(kDialler)});
    return result.ok() ? "accepted" : result.error().message;
  };
  EXPECT_EQ(refusal(TLS1_3_VERSION, &dialler_), "accepted") << "the raw client itself works";
  EXPECT_EQ(refusal(TLS1_2_VERSION, &dialler_), "TRP-S710 peer rejected: it offers no TLS 1.3 (a local peer)");
  EXPECT_EQ(refusal(TLS1_3_VERSION, nullptr), "TRP-S710 peer certificate rejected: none shown (a local peer)");
  const Credentials weak = issue_odd(authority_, {.names = "URI:troupe://run-1/actor/node-1", .rsa_bits = 1024});
  EXPECT_EQ(refusal(TLS1_3_VERSION, &weak),
            "TRP-S710 peer certificate rejected: EE certificate key too weak (a local peer)");
}

TEST_F(LinkTest, AConnectionThatEndsAnywhereInsideAFrameDeliversNothing) {
  const auto payload = pattern(8);
  std::vector<std::byte> whole;
  const FrameHeaderBytes header = encode_header({FrameKind::kData, 8, 1}, {}).value();
  whole.insert(whole.end(), header.begin(), header.end());
  whole.insert(whole.end(), payload.begin(), payload.end());
  for (std::size_t cut = 0; cut <= whole.size(); ++cut) {
    auto bytes = raw_welcome();
    bytes.insert(bytes.end(), whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(cut));
    const Sockets sockets;
    std::jthread client([&] { dial_raw(sockets.fds[0], TLS1_3_VERSION, &dialler_, bytes); });
    auto link = Link::open(sockets.fds[1], acceptor_, {.side = Side::kAccept, .admit = only(kDialler)});
    ASSERT_TRUE(link.ok()) << link.error().message;
    const auto got = (*link)->receive(5s);
    ASSERT_EQ(got.ok(), cut == whole.size()) << cut;
    if (got.ok()) continue;
    const std::string message = got.error().message;
    if (cut > 0 && cut < 16) {
      EXPECT_THAT(message, StartsWith(fmt::format("TRP-S704 connection ended inside a frame's header ({} of 16", cut)));
    } else if (cut >= 16) {
      EXPECT_THAT(message,
                  StartsWith(fmt::format("TRP-S704 connection ended inside a frame ({} of 8 bytes", cut - 16)));
    }
  }
}

TEST_F(LinkTest, MissingOrMixedUpCredentialsStopTheStart) {
  const auto refusal = [&](auto change) {
    Credentials credentials = dialler_;
    change(credentials);
    return Link::open(Sockets().fds[0], credentials, {.admit = only(kAcceptor)}).error();
  };
  EXPECT_THAT(refusal([](Credentials& c) { c.authority.clear(); }).message, HasSubstr("link credentials: authority"));
  EXPECT_THAT(refusal([](Credentials& c) { c.certificate.clear(); }).message, HasSubstr("certificate"));
  EXPECT_THAT(refusal([](Credentials& c) { c.key.clear(); }).message, HasSubstr("key"));
  EXPECT_EQ(refusal([&](Credentials& c) { c.key = acceptor_.key; }).code, Code::kInvalidArgument);
}

TEST_F(LinkTest, AMuteOrTricklingPeerMeetsTheHandshakeDeadline) {
  const LinkOptions options{.side = Side::kAccept, .admit = only(kDialler), .handshake_timeout = 300ms};
  for (bool trickle : {false, true}) {
    const Sockets sockets;
    std::jthread peer([&](std::stop_token stop) {
      const char record[] = {0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, static_cast<char>(0xfc), 0x03, 0x03};
      for (std::size_t i = 0; trickle && i < sizeof(record) && !stop.stop_requested(); ++i) {
        (void)!send(sockets.fds[0], record + i, 1, MSG_NOSIGNAL);
        std::this_thread::sleep_for(50ms);
      }
    });
    const auto start = std::chrono::steady_clock::now();
    const Error refused = Link::open(sockets.fds[1], acceptor_, options).error();
    EXPECT_EQ(refused.code, Code::kDeadlineExceeded);
    EXPECT_EQ(refused.message, "TRP-S702 handshake not finished in 0.3 s (a local peer)");
    EXPECT_GE(std::chrono::steady_clock::now() - start, 300ms);
    EXPECT_LT(std::chrono::steady_clock::now() - start, 3s);
    peer.join();
    close(sockets.fds[0]);
  }
}

TEST_F(LinkTest, AHandshakeCanBeStopped) {
  const Sockets sockets;
  std::stop_source source;
  std::jthread stopper([&] {
    std::this_thread::sleep_for(50ms);
    source.request_stop();
  });
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(Link::open(sockets.fds[1], acceptor_, {.admit = only(kDialler), .stop = source.get_token()}).error().code,
            Code::kUnavailable);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 3s);
  close(sockets.fds[0]);
}

TEST_F(LinkTest, GarbageInsteadOfAHandshakeIsRefused) {
  const auto refusal = [&](Side side, std::string_view bytes) {
    const Sockets sockets;
    EXPECT_EQ(write(sockets.fds[0], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    const std::string message =
        Link::open(sockets.fds[1], acceptor_, {.side = side, .admit = only(kDialler)}).error().message;
    close(sockets.fds[0]);
    return message;
  };
  EXPECT_EQ(refusal(Side::kAccept, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
            "TRP-S701 a local peer: not a Troupe connection (first bytes 47 45 54 20)");
  EXPECT_EQ(refusal(Side::kAccept, "\xff"), "TRP-S701 a local peer: not a Troupe connection (first bytes ff)");
  EXPECT_EQ(refusal(Side::kDial, "SSH-2.0-OpenSSH_9.2\r\n"),
            "TRP-S701 a local peer: not a Troupe connection (first bytes 53 53 48 2d)");
  // Like TLS only at first sight.
  EXPECT_THAT(refusal(Side::kAccept, std::string("\x16\x03\x01\x00\x05GET /", 10)),
              StartsWith("TRP-S701 a local peer: "));
  EXPECT_THAT(refusal(Side::kAccept, std::string("\x16\x03\x01\xff\xff", 5) + std::string(70000, 'x')),
              StartsWith("TRP-S701 a local peer: "));
}

TEST_F(LinkTest, AnIdleReceiveTimesOutAndTheLinkStaysUsable) {
  auto [dial, accept] = connect_good();
  EXPECT_EQ((*accept)->receive(50ms).error().code, Code::kDeadlineExceeded);
  ASSERT_TRUE((*dial)->send(FrameKind::kData, pattern(10), 5s).ok());
  EXPECT_EQ((*accept)->receive(5s).value().payload.size(), 10u);
}

TEST_F(LinkTest, ASenderWhosePeerDoesNotReadMeetsItsDeadline) {
  auto [dial, accept] = connect_good();
  const auto bytes = pattern(8 << 20);  // more than any socket buffer
  EXPECT_EQ((*dial)->send(FrameKind::kData, bytes, 200ms).error().code, Code::kDeadlineExceeded);
  EXPECT_THAT((*dial)->send(FrameKind::kData, pattern(1), 1s).error().message, HasSubstr("broken by an earlier error"));
  dial->reset();
  EXPECT_THAT((*accept)->receive(5s).error().message, HasSubstr("ended inside a frame ("));
}

TEST_F(LinkTest, FramesAboveTheReceiversLimitAreRefusedFromTheHeaderAlone) {
  auto [dial, accept] = connect(dialler_, {.side = Side::kDial, .admit = only(kAcceptor)}, acceptor_,
                                {.side = Side::kAccept, .admit = only(kDialler), .limits = {.data_bytes = 1000}});
  ASSERT_TRUE((*dial)->send(FrameKind::kData, pattern(1001), 5s).ok());
  const auto refused = (*accept)->receive(5s);
  EXPECT_EQ(refused.error().code, Code::kCorrupt);
  EXPECT_EQ(refused.error().message, "TRP-S703 frame of 1001 bytes exceeds limit 1000");
  const FrameLimits defaults;
  EXPECT_EQ((*accept)->send(FrameKind::kControl, pattern(defaults.control_bytes + 1), 5s).error().code,
            Code::kInvalidArgument);
}

TEST_F(LinkTest, ClosingFromAnotherThreadEndsAWaitingReceive) {
  auto [dial, accept] = connect_good();
  std::jthread closer([link = accept->get()] {
    std::this_thread::sleep_for(50ms);
    link->close();
  });
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ((*accept)->receive(20s).error().code, Code::kUnavailable);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
}

TEST_F(LinkTest, APeerThatLeftIsSaidSoAndRaisesNoSignal) {
  auto [dial, accept] = connect_good();
  dial->reset();
  EXPECT_THAT((*accept)->receive(5s).error().message, HasSubstr("the peer closed the link"));
  auto [second, other] = connect_good();
  second->reset();
  Status sent;
  for (int i = 0; i < 100 && sent.ok(); ++i) sent = (*other)->send(FrameKind::kData, pattern(100000), 1s);
  EXPECT_EQ(sent.error().code, Code::kUnavailable);  // SIGPIPE would have ended the program
}

}  // namespace
}  // namespace troupe::transport
