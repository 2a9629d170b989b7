// The listener's side of a connection: whatever a stranger says first, and whatever a certified node says after it was
// let in.
#include <chrono>
#include <thread>

#include <fcntl.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <troupe/core/crc32c.hpp>
#include <troupe/tests/fuzz/fuzz.hpp>
#include <troupe/transport/authority.hpp>
#include <troupe/transport/detail/handshake.hpp>
#include <troupe/transport/detail/openssl.hpp>
#include <troupe/transport/detail/tls_context.hpp>
#include <troupe/transport/link.hpp>

namespace troupe::fuzz {
namespace {

using namespace transport;
using std::chrono::milliseconds;

const Identity kNode{"run-1", {"actor"}, "actor-0"}, kChief{"run-1", {"chief"}, "chief"};
constexpr FrameLimits kLimits{.data_bytes = 1 << 20, .control_bytes = 1 << 10};

struct Run {
  const WallTime now = std::chrono::system_clock::now();
  const Authority authority = Authority::create("run-1", now).value();
  const Credentials chief_credentials = authority.issue(kChief, now).value();
  const Credentials node_credentials = authority.issue(kNode, now).value();
  const ContextPtr chief = make_context(chief_credentials).value();
  const ContextPtr node = make_context(node_credentials).value();
};

const Run& run() {
  static const Run one;
  return one;
}

struct Sockets {
  Sockets() {
    TROUPE_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0, "no sockets");
  }
  ~Sockets() {
    if (fds[0] >= 0) ::close(fds[0]);
  }
  int fds[2];
};

const LinkOptions kOptions{.side = Side::kAccept,
                           .admit = [](const Identity& peer) -> Status {
                             TROUPE_CHECK(peer == kNode, "somebody else was believed");
                             return {};
                           },
                           .handshake_timeout = milliseconds(500),
                           .limits = kLimits};

/// Steps until nothing more happens without the peer; the peer has said all it will.
void stranger(Bytes said) {
  Sockets sockets;
  const ssize_t sent = ::send(sockets.fds[0], said.data(), said.size(), MSG_NOSIGNAL);
  (void)sent;
  ::shutdown(sockets.fds[0], SHUT_WR);
  Handshake handshake(Descriptor(sockets.fds[1]), *run().chief, kOptions);
  for (int step = 0; step < 100; ++step) {
    const auto next = handshake.step();
    if (!next.ok()) return;
    TROUPE_CHECK(*next != Handshake::Next::kDone, "a stranger was let in");
  }
  TROUPE_CHECK(false, "a handshake with a peer that has closed does not end");
}

/// Headers in the input get the sequence and the checksum that they must have.
std::string repaired(Bytes said) {
  std::vector<std::byte> bytes(said.begin(), said.end());
  std::uint32_t sequence = 0;
  for (std::span<std::byte> left = bytes; left.size() >= kFrameHeaderBytes; ++sequence) {
    store(left, 0, std::uint16_t{0x5254});
    store(left, 2, std::uint8_t{kHeaderVersion});
    store(left, 8, sequence);
    store(left, 12, crc32c(left.first(12)));
    const std::size_t length = load<std::uint32_t>(left, 4);
    left = left.subspan(std::min(left.size(), kFrameHeaderBytes + length));
  }
  return to_string(bytes);
}

/// A node with a good certificate that says anything at all once TLS stands.
void node(const std::string& said) {
  Sockets sockets;
  const OpenSslPtr<SSL, SSL_free> ssl(SSL_new(run().node.get()));
  SSL_set_fd(ssl.get(), sockets.fds[0]);
  SSL_set_connect_state(ssl.get());
  Handshake handshake(Descriptor(sockets.fds[1]), *run().chief, kOptions);
  bool connected = false;
  for (int step = 0; step < 100; ++step) {
    if (!connected && SSL_do_handshake(ssl.get()) == 1) {
      connected = true;
      if (!said.empty()) SSL_write(ssl.get(), said.data(), static_cast<int>(said.size()));
      ::shutdown(sockets.fds[0], SHUT_WR);
    }
    const auto next = handshake.step();
    if (!next.ok()) return;
    if (*next != Handshake::Next::kDone) continue;
    Link link(handshake.take(), kOptions);
    std::size_t bytes = 0;
    for (;;) {
      const auto frame = link.receive(milliseconds(500));
      if (!frame.ok()) break;
      bytes += frame->payload.size();
    }
    TROUPE_CHECK(bytes <= said.size(), "{} bytes of payload of {}", bytes, said.size());
    return;
  }
  TROUPE_CHECK(false, "a handshake does not end");
}

void one_input(Bytes input) {
  Input choice(input);
  switch (choice.choose(3)) {
    case 0:
      return stranger(choice.rest());
    case 1:
      return node(to_string(choice.rest()));
    default:
      return node(repaired(choice.rest()));
  }
}

std::vector<std::string> seeds() {
  Sockets sockets;
  const OpenSslPtr<SSL, SSL_free> ssl(SSL_new(run().node.get()));
  SSL_set_fd(ssl.get(), sockets.fds[0]);
  SSL_set_connect_state(ssl.get());
  SSL_do_handshake(ssl.get());
  std::string hello(4096, '\0');
  hello.resize(static_cast<std::size_t>(std::max<ssize_t>(0, ::recv(sockets.fds[1], hello.data(), hello.size(), 0))));
  ::close(sockets.fds[1]);
  const auto frame = [](FrameKind kind, std::uint32_t sequence, std::string payload) {
    return to_string(encode_header({kind, static_cast<std::uint32_t>(payload.size()), sequence}, kLimits).value()) +
           payload;
  };
  const std::string welcome = frame(FrameKind::kWelcome, 0, std::string("\1\0\1\0", 4));
  const std::string more =
      welcome + frame(FrameKind::kControl, 1, "abc") + frame(FrameKind::kData, 2, std::string(40, 'x'));
  return {std::string(1, '\0') + hello, std::string(1, '\0') + "GET / HTTP/1.1\r\n\r\n", "\1" + welcome, "\2" + more,
          "\2" + frame(FrameKind::kRefusal, 0, "TRP-E161 no")};
}

const Registered registered({"link", one_input, seeds});

}  // namespace
}  // namespace troupe::fuzz
