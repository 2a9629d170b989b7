#include <troupe/transport/link.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/err.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>

#include <troupe/core/check.hpp>
#include <troupe/transport/detail/handshake.hpp>
#include <troupe/transport/dial.hpp>

namespace troupe::transport {
namespace {

/// Plaintext in a full TLS record.
constexpr std::size_t kRecordBytes = 16 * 1024;
/// Records gathered before a system call: measured 1.4 times as fast as one call a record at 64 KiB frames.
constexpr std::size_t kGatherBytes = 64 * 1024;
/// A deadline is renewed whenever this much has passed.
constexpr std::size_t kProgressBytes = 64 * 1024;
/// First size of the receive buffer; it doubles while bytes keep coming.
constexpr std::size_t kFirstBuffer = 64 * 1024;

Error unavailable(std::string what) { return Error{Code::kUnavailable, "link: " + std::move(what)}; }

int poll_timeout(Duration left) {
  return static_cast<int>(std::min<std::int64_t>(std::chrono::ceil<std::chrono::milliseconds>(left).count(), INT_MAX));
}

/// How long the peer may still take; renewed by progress.
class Patience {
 public:
  Patience(const Clock& clock, Duration timeout) : clock_(clock), timeout_(timeout), deadline_(clock.now() + timeout) {}

  Duration left() const { return deadline_ - clock_.now(); }
  void passed(std::size_t bytes) {
    bytes_ += bytes;
    if (bytes_ < kProgressBytes) return;
    bytes_ = 0;
    deadline_ = clock_.now() + timeout_;
  }

 private:
  const Clock& clock_;
  const Duration timeout_;
  Duration deadline_;
  std::size_t bytes_ = 0;
};

}  // namespace

Admit only(Identity expected) {
  return [expected = std::move(expected)](const Identity& peer) -> Status {
    if (peer == expected) return {};
    return Error{Code::kUnavailable, fmt::format("TRP-S710 peer certificate rejected: it is of {}, expected {}",
                                                 to_uri(peer).value(), to_uri(expected).value())};
  };
}

struct Link::Impl {
  Impl(std::unique_ptr<Connection> made, const LinkOptions& options)
      : connection(std::move(made)), limits(options.limits), rekey_bytes(options.rekey_bytes) {
    gathered.reserve(kGatherBytes + 2 * kRecordBytes);
  }

  void close();
  Status wait(short events, Patience& patience);
  template <typename Call>
  Status drive(Call call, Patience& patience, std::string_view what);

  template <typename Encrypt>
  Result<std::size_t> write_some(const Encrypt& encrypt, Patience& patience);
  Status write_all(std::span<const std::byte> bytes, Patience& patience);
  Status put(std::span<const std::byte> bytes, Patience& patience);
  Status stage(std::size_t count, Patience& patience);
  Status put(const LentBytes& bytes, Patience& patience);
  Status send_gathered(Patience& patience);
  Status queue(FrameKind kind, std::span<const std::span<const std::byte>> parts, const LentBytes* lent,
               Patience& patience);
  Status flush(Patience& patience);

  Result<std::size_t> read_some(std::span<std::byte> bytes, Patience& patience);
  Result<std::size_t> take(std::span<std::byte> bytes, Patience& patience);
  Result<bool> wait_readable(Duration timeout, int wake_fd);
  Result<FrameHeader> receive_header(Patience& patience);
  Status receive_payload(std::span<std::byte> part, Patience& patience);
  Result<ReceivedFrame> receive(Patience& patience);

  const std::unique_ptr<Connection> connection;
  const Descriptor& socket = connection->socket;
  std::vector<std::byte>& gathered = connection->gathered;
  SSL* const ssl = connection->ssl.get();
  const FrameLimits limits;
  const std::uint64_t rekey_bytes;
  const SteadyClock clock{};  // deadlines of system waits: virtual time has no meaning for a socket
  // Plaintext that does not fill a record yet, and what came in a record beyond what was asked for.
  std::array<std::byte, kRecordBytes> staged;
  std::size_t staged_bytes = 0;
  std::array<std::byte, kRecordBytes> ahead;
  std::span<const std::byte> ahead_left;
  std::vector<std::byte> buffer;  // of receive()
  std::uint64_t key_bytes = 0;    // sent with the present key
  std::size_t frame_bytes = 0;    // of the frame that is being received
  std::size_t frame_left = 0;
  std::uint32_t next_send = 1;  // after the welcome
  std::uint32_t next_receive = 1;
  std::atomic<bool> closed = false;
  bool broken = false;
};

void Link::Impl::close() {
  closed.store(true);
  ::shutdown(socket.fd(), SHUT_RDWR);  // wakes a poll in progress
}

Status Link::Impl::wait(short events, Patience& patience) {
  for (;;) {
    if (closed.load()) return unavailable("closed by this node");
    const Duration left = patience.left();
    if (left <= Duration::zero()) return Error{Code::kDeadlineExceeded, "link: the peer did not answer in time"};
    pollfd entry{socket.fd(), events, 0};
    const int ready = poll(&entry, 1, poll_timeout(left));
    if (ready > 0) return {};  // an error or hang-up too: the next call says which
    if (ready < 0 && errno != EINTR) return unavailable(fmt::format("poll: {}", std::strerror(errno)));
  }
}

/// Calls an OpenSSL function until it returns a positive value, sending and waiting as it asks.
template <typename Call>
Status Link::Impl::drive(Call call, Patience& patience, std::string_view what) {
  for (;;) {
    ERR_clear_error();
    errno = 0;
    const int result = call();
    const int system_error = errno;
    const int error = SSL_get_error(ssl, result);
    const std::string reason = error == SSL_ERROR_SSL ? take_openssl_errors() : std::string();
    // Before waiting, and on failure too: the alert in the buffer tells the peer why.
    if (result <= 0 || gathered.size() >= kGatherBytes) {
      if (const Status sent = send_gathered(patience); !sent.ok() && error != SSL_ERROR_SSL) return sent;
    }
    if (result > 0) return {};
    if (closed.load()) return unavailable("closed by this node");
    switch (error) {
      case SSL_ERROR_WANT_READ:
        TROUPE_TRY(wait(POLLIN, patience));
        break;
      case SSL_ERROR_ZERO_RETURN:
        return unavailable(fmt::format("{}: the peer closed the link", what));
      case SSL_ERROR_SYSCALL:
        return unavailable(fmt::format("{}: {}", what, std::strerror(system_error)));
      default:
        return unavailable(fmt::format("{}: {}", what, reason));
    }
  }
}

/// One call of OpenSSL, which may be made again; the plaintext that it took.
template <typename Encrypt>
Result<std::size_t> Link::Impl::write_some(const Encrypt& encrypt, Patience& patience) {
  if (key_bytes >= rekey_bytes) {
    SSL_key_update(ssl, SSL_KEY_UPDATE_NOT_REQUESTED);  // the next write sends it first
    key_bytes = 0;
  }
  std::size_t written = 0;
  TROUPE_TRY(drive([&] { return encrypt(&written); }, patience, "send"));
  key_bytes += written;
  return written;
}

Status Link::Impl::write_all(std::span<const std::byte> bytes, Patience& patience) {
  while (!bytes.empty()) {
    const auto encrypt = [&](std::size_t* written) { return SSL_write_ex(ssl, bytes.data(), bytes.size(), written); };
    TROUPE_ASSIGN(const std::size_t written, write_some(encrypt, patience));
    bytes = bytes.subspan(written);
  }
  return {};
}

/// Fills records: only the ends of a long payload are copied, its middle is encrypted from where it lies.
Status Link::Impl::put(std::span<const std::byte> bytes, Patience& patience) {
  while (!bytes.empty()) {
    if (staged_bytes == 0 && bytes.size() >= kRecordBytes) {
      const std::size_t whole = bytes.size() / kRecordBytes * kRecordBytes;
      TROUPE_TRY(write_all(bytes.first(whole), patience));
      bytes = bytes.subspan(whole);
      continue;
    }
    const std::size_t count = std::min(bytes.size(), kRecordBytes - staged_bytes);
    std::memcpy(staged.data() + staged_bytes, bytes.data(), count);
    bytes = bytes.subspan(count);
    TROUPE_TRY(stage(count, patience));
  }
  return {};
}

/// So many bytes more are staged.
Status Link::Impl::stage(std::size_t count, Patience& patience) {
  staged_bytes += count;
  if (staged_bytes < kRecordBytes) return {};
  TROUPE_TRY(write_all(staged, patience));
  staged_bytes = 0;
  return {};
}

/// The same of bytes that are held only while they are copied or encrypted, and not while anybody is waited for.
Status Link::Impl::put(const LentBytes& bytes, Patience& patience) {
  for (std::size_t done = 0; done < bytes.size();) {
    const std::size_t left = bytes.size() - done;
    if (staged_bytes == 0 && left >= kRecordBytes) {
      const auto encrypt = [&](std::size_t* written) {
        return bytes.with([&](std::span<const std::byte> all) {
          return SSL_write_ex(ssl, all.data() + done, kRecordBytes, written);
        });
      };
      TROUPE_ASSIGN(const std::size_t written, write_some(encrypt, patience));
      done += written;
      continue;
    }
    const std::size_t count = std::min(left, kRecordBytes - staged_bytes);
    bytes.with(
        [&](std::span<const std::byte> all) { std::memcpy(staged.data() + staged_bytes, all.data() + done, count); });
    done += count;
    TROUPE_TRY(stage(count, patience));
  }
  return {};
}

Status Link::Impl::send_gathered(Patience& patience) {
  std::span<const std::byte> left = gathered;
  while (!left.empty()) {
    const ssize_t sent = ::send(socket.fd(), left.data(), left.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      left = left.subspan(static_cast<std::size_t>(sent));
      patience.passed(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      TROUPE_TRY(wait(POLLOUT, patience));
    } else if (errno != EINTR) {
      return unavailable(fmt::format("send: {}", closed.load() ? "closed by this node" : std::strerror(errno)));
    }
  }
  gathered.clear();
  return {};
}

Status Link::Impl::queue(FrameKind kind, std::span<const std::span<const std::byte>> parts, const LentBytes* lent,
                         Patience& patience) {
  std::size_t total = lent ? lent->size() : 0;
  for (const auto& part : parts) total += part.size();
  const auto length = static_cast<std::uint32_t>(std::min<std::size_t>(total, UINT32_MAX));
  TROUPE_ASSIGN(const FrameHeaderBytes header, encode_header({kind, length, next_send}, limits));
  if (broken) return unavailable("broken by an earlier error");
  broken = true;  // until the whole frame is queued
  TROUPE_TRY(put(header, patience));
  for (const auto& part : parts) TROUPE_TRY(put(part, patience));
  if (lent) TROUPE_TRY(put(*lent, patience));
  ++next_send;
  broken = false;
  return {};
}

Status Link::Impl::flush(Patience& patience) {
  if (broken) return unavailable("broken by an earlier error");
  broken = true;  // until all is out
  TROUPE_TRY(write_all(std::span(staged).first(staged_bytes), patience));
  staged_bytes = 0;
  TROUPE_TRY(send_gathered(patience));
  broken = false;
  return {};
}

Result<std::size_t> Link::Impl::read_some(std::span<std::byte> bytes, Patience& patience) {
  std::size_t got = 0;
  TROUPE_TRY(drive([&] { return SSL_read_ex(ssl, bytes.data(), bytes.size(), &got); }, patience, "receive"));
  return got;
}

/// Some plaintext, at least a byte. A short piece comes with the rest of its record, so that the small frames in one
/// record cost one call of OpenSSL; a long one is decrypted to where it belongs.
Result<std::size_t> Link::Impl::take(std::span<std::byte> bytes, Patience& patience) {
  if (ahead_left.empty()) {
    if (bytes.size() >= kRecordBytes) return read_some(bytes, patience);
    TROUPE_ASSIGN(const std::size_t got, read_some(ahead, patience));
    ahead_left = std::span(ahead).first(got);
  }
  const std::size_t count = std::min(bytes.size(), ahead_left.size());
  std::memcpy(bytes.data(), ahead_left.data(), count);
  ahead_left = ahead_left.subspan(count);
  return count;
}

Result<bool> Link::Impl::wait_readable(Duration timeout, int wake_fd) {
  if (!ahead_left.empty() || SSL_has_pending(ssl) == 1) return true;
  pollfd entries[] = {{socket.fd(), POLLIN, 0}, {wake_fd, POLLIN, 0}};
  const Duration deadline = clock.now() + timeout;
  for (;;) {
    if (closed.load()) return unavailable("closed by this node");
    const Duration left = std::max(deadline - clock.now(), Duration::zero());
    const int ready = poll(entries, 2, poll_timeout(left));  // a negative fd is ignored
    if (ready >= 0) return entries[0].revents != 0;          // an error or hang-up too: the next call says which
    if (errno != EINTR) return unavailable(fmt::format("poll: {}", std::strerror(errno)));
  }
}

Result<FrameHeader> Link::Impl::receive_header(Patience& patience) {
  TROUPE_CHECK(frame_left == 0, "{} bytes of the frame before are left", frame_left);
  if (broken) return unavailable("broken by an earlier error");
  FrameHeaderBytes bytes;
  std::size_t done = 0;
  while (done < bytes.size()) {
    auto got = take(std::span(bytes).subspan(done), patience);
    if (!got.ok()) {
      // Before the first byte nothing is lost: the caller may wait again.
      broken = done != 0 || got.error().code != Code::kDeadlineExceeded;
      if (done == 0) return got.error();
      return Error{got.error().code,
                   fmt::format("TRP-S704 connection ended inside a frame's header ({} of {} bytes): {}", done,
                               bytes.size(), got.error().message)};
    }
    done += *got;
  }
  broken = true;
  TROUPE_ASSIGN(const FrameHeader header, decode_header(bytes, limits, next_receive));
  ++next_receive;
  frame_bytes = frame_left = header.length;
  broken = false;
  return header;
}

Status Link::Impl::receive_payload(std::span<std::byte> part, Patience& patience) {
  TROUPE_CHECK(part.size() <= frame_left, "{} bytes wanted, {} left", part.size(), frame_left);
  if (broken) return unavailable("broken by an earlier error");
  while (!part.empty()) {
    auto got = take(part, patience);
    if (!got.ok()) {
      broken = true;
      return Error{got.error().code, fmt::format("TRP-S704 connection ended inside a frame ({} of {} bytes): {}",
                                                 frame_bytes - frame_left, frame_bytes, got.error().message)};
    }
    part = part.subspan(*got);
    frame_left -= *got;
    patience.passed(*got);
  }
  return {};
}

Result<ReceivedFrame> Link::Impl::receive(Patience& patience) {
  TROUPE_ASSIGN(const FrameHeader header, receive_header(patience));
  for (std::size_t done = 0; done < header.length;) {
    if (done == buffer.size()) {
      buffer.resize(std::min<std::size_t>(header.length, std::max(kFirstBuffer, 2 * buffer.size())));
    }
    const std::size_t room = std::min<std::size_t>(buffer.size(), header.length) - done;
    TROUPE_TRY(receive_payload(std::span(buffer).subspan(done, room), patience));
    done += room;
  }
  return ReceivedFrame{header.kind, std::span(buffer).first(header.length)};
}

Link::Link(std::unique_ptr<Connection> connection, const LinkOptions& options)
    : impl_(std::make_unique<Impl>(std::move(connection), options)) {}

Link::~Link() {
  // Says goodbye where the connection stands; a peer that does not take it is not waited for.
  if (!impl_->broken && !impl_->closed.load()) {
    ERR_clear_error();
    SSL_shutdown(impl_->ssl);
    Patience none(impl_->clock, Duration::zero());  // sends what there is room for
    (void)impl_->send_gathered(none);
    ERR_clear_error();
  }
}

namespace {

Result<std::unique_ptr<Link>> shake_hands(Descriptor socket, SSL_CTX& context, const LinkOptions& options) {
  const int fd = socket.fd();
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    return unavailable(fmt::format("cannot use socket {}: {}", fd, std::strerror(errno)));
  }
  Handshake handshake(std::move(socket), context, options);
  const std::stop_callback on_stop(options.stop, [&] { ::shutdown(fd, SHUT_RDWR); });  // wakes a poll in progress
  for (;;) {
    const auto next = handshake.step();
    if (options.stop.stop_requested()) return unavailable("closed by this node");
    if (!next.ok()) return next.error();
    if (*next == Handshake::Next::kDone) return std::make_unique<Link>(handshake.take(), options);
    pollfd entry{fd, static_cast<short>(*next == Handshake::Next::kRead ? POLLIN : POLLOUT), 0};
    const Duration left = std::max(handshake.deadline() - SteadyClock().now(), Duration::zero());
    if (poll(&entry, 1, poll_timeout(left)) < 0 && errno != EINTR) {
      return unavailable(fmt::format("poll: {}", std::strerror(errno)));
    }
  }
}

}  // namespace

Result<std::unique_ptr<Link>> Link::open(int fd, const Credentials& credentials, const LinkOptions& options) {
  Descriptor socket(fd);
  TROUPE_ASSIGN(const ContextPtr context, make_context(credentials));
  return shake_hands(std::move(socket), *context, options);
}

Result<std::unique_ptr<Link>> dial_link(const Address& address, const Credentials& credentials,
                                        const LinkOptions& options, Duration timeout) {
  TROUPE_ASSIGN(const ContextPtr context, make_context(credentials));  // takes milliseconds
  TROUPE_ASSIGN(const int socket, dial(address, timeout, options.stop));
  return shake_hands(Descriptor(socket), *context, options);
}

const Identity& Link::peer() const { return impl_->connection->peer; }

Status Link::queue(FrameKind kind, std::span<const std::span<const std::byte>> parts, Duration timeout,
                   const LentBytes* lent) {
  Patience patience(impl_->clock, timeout);
  return impl_->queue(kind, parts, lent, patience);
}

Status Link::flush(Duration timeout) {
  Patience patience(impl_->clock, timeout);
  return impl_->flush(patience);
}

Status Link::send(FrameKind kind, std::span<const std::span<const std::byte>> parts, Duration timeout) {
  Patience patience(impl_->clock, timeout);
  TROUPE_TRY(impl_->queue(kind, parts, nullptr, patience));
  return impl_->flush(patience);
}

Status Link::send(FrameKind kind, std::span<const std::byte> payload, Duration timeout) {
  return send(kind, std::span(&payload, 1), timeout);
}

Result<bool> Link::wait(Duration timeout, int wake_fd) { return impl_->wait_readable(timeout, wake_fd); }

Result<ReceivedFrame> Link::receive(Duration timeout) {
  Patience patience(impl_->clock, timeout);
  return impl_->receive(patience);
}

Result<FrameHeader> Link::receive_header(Duration timeout) {
  Patience patience(impl_->clock, timeout);
  return impl_->receive_header(patience);
}

Status Link::receive_payload(std::span<std::byte> part, Duration timeout) {
  Patience patience(impl_->clock, timeout);
  return impl_->receive_payload(part, patience);
}

int Link::socket() const { return impl_->socket.fd(); }

void Link::close() { impl_->close(); }

}  // namespace troupe::transport
