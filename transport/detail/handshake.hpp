#pragma once
// How a connected socket becomes a link: TLS handshake, who the peer is, whether it is let in, protocol versions. In
// steps that never wait, so that one thread can take many peers through it at once (listener.cpp); Link::open waits
// between the steps of one. Internal to transport/.
#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/transport/detail/descriptor.hpp>
#include <troupe/transport/detail/tls_context.hpp>
#include <troupe/transport/link.hpp>

namespace troupe::transport {

/// What a handshake makes and a link carries frames over.
struct Connection {
  Descriptor socket;
  std::string address;              ///< of the peer, for messages
  std::vector<std::byte> gathered;  ///< records that OpenSSL wrote, to be sent
  std::string rejection;            ///< why the peer's certificate did not pass, for messages
  OpenSslPtr<SSL, SSL_free> ssl;    ///< writes to `gathered`: null until the peer's first bytes look like TLS
  Identity peer;
};

class Handshake {
 public:
  enum class Next { kRead, kWrite, kDone };

  /// `socket` does not block. The deadline begins now.
  Handshake(Descriptor socket, SSL_CTX& context, const LinkOptions& options);

  /// Does what can be done at once and says what to wait for. An error, also the deadline, is the end: what the peer is
  /// to know about it has been sent, as far as there was room.
  Result<Next> step();

  int fd() const { return connection_->socket.fd(); }
  /// Nobody has said a word yet; who dials in earnest does so at once.
  bool silent() const { return first_count_ == 0; }
  /// The peer's hello was whole, and has been answered.
  bool answered() const { return answered_; }
  /// The peer has a certificate of the run.
  bool proven() const { return greeted_; }
  Duration deadline() const { return deadline_; }
  /// After kDone. Both sides have sent one frame.
  std::unique_ptr<Connection> take() { return std::move(connection_); }

 private:
  Result<Next> advance();
  Result<bool> send_gathered();
  Result<bool> first_bytes_came();
  Result<bool> shake_hands();
  Status greet();
  Result<bool> read_welcome();
  void make_ssl();
  Error failed(int result);
  Error not_troupe() const;
  Error broken_off(int error) const;

  std::unique_ptr<Connection> connection_;
  SSL_CTX& context_;
  const LinkOptions& options_;
  const SteadyClock clock_{};
  const Duration deadline_;
  bool answered_ = false;
  bool greeted_ = false;
  std::array<unsigned char, 4> first_{};  // what the peer said first
  std::size_t first_count_ = 0;
  std::optional<Error> refusal_;  // the peer is told and its welcome awaited before this comes out of step()
  std::array<std::byte, kFrameHeaderBytes + kWelcomeBytesMax> welcome_;
  std::size_t welcome_got_ = 0;
  std::optional<FrameHeader> welcome_header_;
};

}  // namespace troupe::transport
