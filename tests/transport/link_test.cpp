// The link over socket pairs: frames of all sizes, who is let in, and peers that stall, lie or die.
#include <troupe/transport/link.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <thread>

#include <troupe/tests/transport/certificates.hpp>

namespace troupe::transport {
namespace {

using testing::Authority;
using testing::CertificateOptions;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr const char* kDialler = "troupe://run-1/actor/0";
constexpr const char* kAcceptor = "troupe://run-1/replay/0";

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
    return connect(dialler_, {.side = Side::kDial, .peer_uri = kAcceptor, .limits = limits}, acceptor_,
                   {.side = Side::kAccept, .peer_uri = kDialler, .limits = limits});
  }
  /// Both ends refuse when the dialler shows `credentials`.
  std::pair<std::string, std::string> refusals(const Credentials& credentials) {
    auto [dial, accept] = connect(credentials, {.side = Side::kDial, .peer_uri = kAcceptor}, acceptor_,
                                  {.side = Side::kAccept, .peer_uri = kDialler});
    return {dial.ok() ? "accepted" : dial.error().message, accept.ok() ? "accepted" : accept.error().message};
  }

  const Authority authority_;
  const Credentials dialler_ = authority_.issue({.uri = kDialler});
  const Credentials acceptor_ = authority_.issue({.uri = kAcceptor});
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
  const auto [dial, accept] = connect(dialler_, {.side = Side::kDial, .peer_uri = kAcceptor, .rekey_bytes = 50000},
                                      acceptor_, {.side = Side::kAccept, .peer_uri = kDialler, .rekey_bytes = 1});
  const auto bytes = pattern(1 << 20);
  auto sender = std::async(std::launch::async, [&, link = dial->get()] {
    return link->send(FrameKind::kData, bytes, 5s).ok() && link->send(FrameKind::kData, bytes, 5s).ok();
  });
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(std::ranges::equal((*accept)->receive(5s).value().payload, bytes));
  EXPECT_TRUE(sender.get());
  for (int i = 0; i < 2; ++i) ASSERT_TRUE((*accept)->send(FrameKind::kControl, pattern(9), 5s).ok());
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(std::ranges::equal((*dial)->receive(5s).value().payload, pattern(9)));
}

TEST_F(LinkTest, OnlyACertificateOfTheRunWithTheExpectedUriIsLetIn) {
  EXPECT_EQ(refusals(dialler_), (std::pair<std::string, std::string>("accepted", "accepted")));
  EXPECT_THAT(refusals(authority_.issue({.uri = "troupe://run-1/actor/1"})).second,
              HasSubstr("the peer is \"troupe://run-1/actor/1\", expected \"troupe://run-1/actor/0\""));
  EXPECT_THAT(refusals(authority_.issue({.uri = "troupe://run-1/actor/1"})).first, HasSubstr("link: "));
  EXPECT_THAT(refusals(authority_.issue({})).second, HasSubstr("has no URI"));
  EXPECT_THAT(refusals(authority_.issue({.uri = kDialler, .valid_from_s = -7200, .valid_until_s = -3600})).second,
              HasSubstr("certificate verify failed"));
  EXPECT_THAT(refusals(authority_.issue({.uri = kDialler, .valid_from_s = 3600, .valid_until_s = 7200})).second,
              HasSubstr("certificate verify failed"));
  const Authority other;
  Credentials stranger = other.issue({.uri = kDialler});
  EXPECT_THAT(refusals(stranger).first, HasSubstr("certificate verify failed")) << "it does not trust us either";
  stranger.authority = authority_.certificate();
  EXPECT_THAT(refusals(stranger).second, HasSubstr("certificate verify failed"));
}

/// Dials with plain OpenSSL, as somebody would who does not use Link. `credentials` null: shows no certificate.
void dial_raw(int fd, int max_version, const Credentials* credentials) {
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  SSL_CTX_set_max_proto_version(context, max_version);
  if (credentials != nullptr) {
    BIO* certificate = BIO_new_mem_buf(credentials->certificate.data(), -1);
    BIO* key = BIO_new_mem_buf(credentials->key.data(), -1);
    X509* x509 = PEM_read_bio_X509(certificate, nullptr, nullptr, nullptr);
    EVP_PKEY* pkey = PEM_read_bio_PrivateKey(key, nullptr, nullptr, nullptr);
    SSL_CTX_use_certificate(context, x509);
    SSL_CTX_use_PrivateKey(context, pkey);
    X509_free(x509);
    EVP_PKEY_free(pkey);
    BIO_free(certificate);
    BIO_free(key);
  }
  SSL* ssl = SSL_new(context);
  SSL_set_fd(ssl, fd);
  char byte;
  if (SSL_connect(ssl) == 1) SSL_read(ssl, &byte, 1);  // the verdict comes with the first read
  SSL_free(ssl);
  SSL_CTX_free(context);
  close(fd);
}

TEST_F(LinkTest, OldTlsAndMissingCertificatesAreRefused) {
  const auto refusal = [&](int max_version, const Credentials* credentials) {
    const Sockets sockets;
    std::jthread client([&] { dial_raw(sockets.fds[0], max_version, credentials); });
    const auto result = Link::open(sockets.fds[1], acceptor_, {.side = Side::kAccept, .peer_uri = kDialler});
    return result.ok() ? "accepted" : result.error().message;
  };
  EXPECT_EQ(refusal(TLS1_3_VERSION, &dialler_), "accepted") << "the raw client itself works";
  EXPECT_THAT(refusal(TLS1_2_VERSION, &dialler_), HasSubstr("unsupported protocol"));
  EXPECT_THAT(refusal(TLS1_3_VERSION, nullptr), HasSubstr("peer did not return a certificate"));
}

TEST_F(LinkTest, MissingOrMixedUpCredentialsStopTheStart) {
  const auto refusal = [&](auto change) {
    Credentials credentials = dialler_;
    change(credentials);
    return Link::open(Sockets().fds[0], credentials, {.peer_uri = kAcceptor}).error();
  };
  EXPECT_THAT(refusal([](Credentials& c) { c.authority.clear(); }).message, HasSubstr("link credentials: authority"));
  EXPECT_THAT(refusal([](Credentials& c) { c.certificate.clear(); }).message, HasSubstr("certificate"));
  EXPECT_THAT(refusal([](Credentials& c) { c.key.clear(); }).message, HasSubstr("key"));
  EXPECT_EQ(refusal([&](Credentials& c) { c.key = acceptor_.key; }).code, Code::kInvalidArgument);
}

TEST_F(LinkTest, AMuteOrTricklingPeerMeetsTheHandshakeDeadline) {
  const LinkOptions options{.side = Side::kAccept, .peer_uri = kDialler, .handshake_timeout = 300ms};
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
    EXPECT_EQ(Link::open(sockets.fds[1], acceptor_, options).error().code, Code::kDeadlineExceeded);
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
  EXPECT_EQ(Link::open(sockets.fds[1], acceptor_, {.peer_uri = kDialler, .stop = source.get_token()}).error().code,
            Code::kUnavailable);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 3s);
  close(sockets.fds[0]);
}

TEST_F(LinkTest, GarbageInsteadOfAHandshakeIsRefused) {
  const Sockets sockets;
  const std::string http = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
  ASSERT_EQ(write(sockets.fds[0], http.data(), http.size()), static_cast<ssize_t>(http.size()));
  EXPECT_THAT(Link::open(sockets.fds[1], acceptor_, {.side = Side::kAccept, .peer_uri = kDialler}).error().message,
              HasSubstr("handshake: "));
  close(sockets.fds[0]);
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
  auto [dial, accept] = connect(dialler_, {.side = Side::kDial, .peer_uri = kAcceptor}, acceptor_,
                                {.side = Side::kAccept, .peer_uri = kDialler, .limits = {.data_bytes = 1000}});
  ASSERT_TRUE((*dial)->send(FrameKind::kData, pattern(1001), 5s).ok());
  const auto refused = (*accept)->receive(5s);
  EXPECT_EQ(refused.error().code, Code::kCorrupt);
  EXPECT_EQ(refused.error().message, "link: frame of 1001 bytes exceeds limit 1000");
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
