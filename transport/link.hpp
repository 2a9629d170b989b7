#pragma once
// One TLS 1.3 connection between two nodes, carrying frames. Both sides prove themselves with a certificate of the
// run's authority; who the peer is comes from its certificate (identity.hpp), never from something that it says.
// OpenSSL, because of the TLS libraries at hand only it could refuse TLS 1.2 and check a URI, and it was the fastest.
//
// A link is made over a connected stream socket that somebody else dialled or accepted, and takes it over.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>

#include <troupe/core/clock.hpp>
#include <troupe/core/error.hpp>
#include <troupe/core/lent_bytes.hpp>
#include <troupe/transport/credentials.hpp>
#include <troupe/transport/frame_header.hpp>
#include <troupe/transport/identity.hpp>

namespace troupe::transport {

struct Connection;

enum class Side { kDial, kAccept };

/// Whether to let in a peer that has proven to be this one; the error is what it is told. Does not block.
using Admit = std::function<Status(const Identity& peer)>;

/// Lets in exactly this one.
Admit only(Identity expected);

struct LinkOptions {
  Side side = Side::kDial;
  Admit admit;                                           ///< required
  Duration handshake_timeout = std::chrono::seconds(5);  ///< for all of it together, however slowly the peer trickles
  FrameLimits limits;
  /// A key is replaced after this many bytes: one AES-GCM key is good for 2^24 full records or so (RFC 8446, 5.5).
  std::uint64_t rekey_bytes = std::uint64_t{64} << 30;
  ProtocolRange protocol;
  std::stop_token stop;  ///< ends open() at once, with kUnavailable
};

struct ReceivedFrame {
  FrameKind kind = FrameKind::kData;
  std::span<const std::byte> payload;  ///< in the link's own buffer, until the next receive()
};

/// One thread may send or receive at a time (an SSL object is not shared by two threads): bulk uses one connection per
/// direction. close() may be called from any thread.
///
/// A timeout is for each 64 KiB of a transfer: a large frame may take its time on a slow connection, a peer that stalls
/// or trickles may not.
class Link {
 public:
  /// Does the handshake, checks the peer and exchanges the welcome frames: in TLS 1.3 a refused dialler believes itself
  /// connected until it reads, so the link counts as up only once the welcome has come. Takes over `socket`, closing it
  /// on failure too. Errors: kInvalidArgument (credentials; no protocol in common), kDeadlineExceeded, kUnavailable
  /// (refused, garbage, closed, stopped).
  static Result<std::unique_ptr<Link>> open(int socket, const Credentials& credentials, const LinkOptions& options);
  /// The same from a handshake that is done (detail/handshake.hpp).
  Link(std::unique_ptr<Connection> connection, const LinkOptions& options);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  /// Who is at the other end.
  const Identity& peer() const;

  /// Puts a frame behind those that were queued before; the parts make one payload, one after the other. Full records
  /// go to the system as they come together (hence the timeout), the rest with flush(): many small frames share one
  /// record and one system call. lent: the last part, held a record at a time. Errors: kInvalidArgument (above the
  /// limit; nothing was queued); otherwise the link is broken: kDeadlineExceeded, kUnavailable.
  Status queue(FrameKind kind, std::span<const std::span<const std::byte>> parts, Duration timeout,
               const LentBytes* lent = nullptr);
  /// Hands everything that was queued to the system. Errors: as of queue().
  Status flush(Duration timeout);
  /// Queues one frame and flushes.
  Status send(FrameKind kind, std::span<const std::span<const std::byte>> parts, Duration timeout);
  Status send(FrameKind kind, std::span<const std::byte> payload, Duration timeout);

  /// Waits until there is something to receive (true), or until `wake_fd`, when given, can be read or the time is over
  /// (false). Errors: kUnavailable (closed by this node).
  Result<bool> wait(Duration timeout, int wake_fd = -1);

  /// The next frame. kDeadlineExceeded before the first byte of a header leaves the link usable; every other error
  /// breaks it: kDeadlineExceeded or kUnavailable inside of a frame, kCorrupt (bad header), kUnavailable (closed).
  /// The buffer grows with the bytes that came, never with the bytes that were announced, and is kept for the next
  /// frame.
  Result<ReceivedFrame> receive(Duration timeout);

  /// The same in steps, for receivers with memory of their own: the header, then all of the payload in parts of any
  /// size, none of it more than announced. Errors: as of receive().
  Result<FrameHeader> receive_header(Duration timeout);
  Status receive_payload(std::span<std::byte> part, Duration timeout);

  /// For waiting on several links at once, after wait() has said that this one has nothing yet. Stays the link's.
  int socket() const;

  /// Ends sends and receives in progress and to come, with kUnavailable. Any thread, idempotent, does not block.
  void close();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe::transport
