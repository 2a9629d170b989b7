#pragma once
// One TLS 1.3 connection between two nodes, carrying frames. Both sides prove themselves with a certificate of the
// run's authority; the peer's identity is the URI in its certificate (troupe://run/role/index), never something it
// says. OpenSSL, because of the TLS libraries at hand only it could refuse TLS 1.2 and check a URI, and it was the
// fastest.
//
// A link is made over a connected stream socket that somebody else dialled or accepted, and takes it over.
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <troupe/core/clock.hpp>
#include <troupe/core/error.hpp>
#include <troupe/transport/frame_header.hpp>

namespace troupe::transport {

/// What a node shows and trusts, as PEM text. All three are required: there is no link without mutual TLS.
struct Credentials {
  std::string authority;    ///< certificate of the run's authority, the only one trusted
  std::string certificate;  ///< this node's, signed by the authority, with its URI as subject alternative name
  std::string key;          ///< this node's private key
};

enum class Side { kDial, kAccept };

struct LinkOptions {
  Side side = Side::kDial;
  std::string peer_uri;                                  ///< exactly this URI must be in the peer's certificate
  Duration handshake_timeout = std::chrono::seconds(5);  ///< for all of it together, however slowly the peer trickles
  FrameLimits limits;
};

struct ReceivedFrame {
  FrameKind kind = FrameKind::kData;
  std::span<const std::byte> payload;  ///< in the link's own buffer, until the next receive()
};

/// One thread may send or receive at a time (an SSL object is not shared by two threads): bulk uses one connection per
/// direction. close() may be called from any thread.
class Link {
 public:
  /// Does the handshake, checks the peer and exchanges the welcome frame: in TLS 1.3 a refused dialler believes itself
  /// connected until it reads, so the link counts as up only once the welcome has come. Takes over `socket`, closing it
  /// on failure too. Errors: kInvalidArgument (credentials), kDeadlineExceeded, kUnavailable (refused, garbage,
  /// closed).
  static Result<std::unique_ptr<Link>> open(int socket, const Credentials& credentials, const LinkOptions& options);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  /// Hands the frame to the system, waiting for room at most `timeout`. The parts are sent one after the other as one
  /// payload. Errors: kInvalidArgument (above the limit; nothing was sent); otherwise the link is broken:
  /// kDeadlineExceeded, kUnavailable.
  Status send(FrameKind kind, std::span<const std::span<const std::byte>> parts, Duration timeout);
  Status send(FrameKind kind, std::span<const std::byte> payload, Duration timeout);

  /// The next frame. kDeadlineExceeded before the first byte of a header leaves the link usable; every other error
  /// breaks it: kDeadlineExceeded or kUnavailable inside of a frame, kCorrupt (bad header), kUnavailable (closed).
  /// The buffer grows with the bytes that came, never with the bytes that were announced, and is kept for the next
  /// frame.
  Result<ReceivedFrame> receive(Duration timeout);

  /// Ends sends and receives in progress and to come, with kUnavailable. Any thread, idempotent, does not block.
  void close();

 private:
  struct Impl;
  explicit Link(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe::transport
