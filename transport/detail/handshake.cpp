#include <troupe/transport/detail/handshake.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/err.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <troupe/core/check.hpp>
#include <troupe/core/text.hpp>
#include <troupe/transport/detail/gathering_bio.hpp>
#include <troupe/transport/detail/socket_address.hpp>

namespace troupe::transport {
namespace {

Error no_handshake(std::string message) { return Error{Code::kUnavailable, std::move(message)}; }

/// All records of TLS begin with a type, of which a handshake uses two, and major version 3.
bool looks_like_tls(std::span<const unsigned char> bytes) {
  constexpr unsigned char kAlert = 21, kHandshake = 22;
  return (bytes[0] == kHandshake || bytes[0] == kAlert) && (bytes.size() < 2 || bytes[1] == 3);
}

}  // namespace

Handshake::Handshake(Descriptor socket, SSL_CTX& context, const LinkOptions& options)
    : connection_(new Connection{.socket = std::move(socket)}),
      context_(context),
      options_(options),
      deadline_(clock_.now() + options.handshake_timeout) {
  TROUPE_CHECK(options.admit != nullptr, "a link needs to know whom to let in");
  connection_->address = peer_address(fd());
}

Result<Handshake::Next> Handshake::step() {
  auto next = advance();
  if (next.ok() && *next != Next::kDone && clock_.now() >= deadline_) {
    next = refusal_.has_value()
               ? *refusal_
               : Error{Code::kDeadlineExceeded, fmt::format("TRP-S702 handshake not finished in {:g} s ({})",
                                                            seconds(options_.handshake_timeout), connection_->address)};
  }
  if (!next.ok()) {
    (void)send_gathered();  // the alert or refusal that says why
    // A close with bytes unread would make the system throw that away.
    std::array<std::byte, 4096> unread;
    for (int i = 0; i < 16 && ::recv(fd(), unread.data(), unread.size(), MSG_DONTWAIT) > 0; ++i) {
    }
  }
  return next;
}

Result<Handshake::Next> Handshake::advance() {
  for (;;) {
    TROUPE_ASSIGN(const bool sent, send_gathered());
    if (!sent) return Next::kWrite;
    if (greeted_) {
      TROUPE_ASSIGN(const bool welcome, read_welcome());
      return welcome ? Next::kDone : Next::kRead;
    }
    if (first_count_ == 0) {
      TROUPE_ASSIGN(const bool came, first_bytes_came());
      const bool speaks_first = options_.side == Side::kDial && connection_->ssl == nullptr;
      if (!came && !speaks_first) return Next::kRead;
    }
    TROUPE_ASSIGN(const bool done, shake_hands());
    if (done) TROUPE_TRY(greet());
    if (!done && connection_->gathered.empty()) return Next::kRead;
  }
}

/// Whether all of it went out.
Result<bool> Handshake::send_gathered() {
  std::vector<std::byte>& gathered = connection_->gathered;
  while (!gathered.empty()) {
    const ssize_t sent = ::send(fd(), gathered.data(), gathered.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
    if (sent < 0 && errno != EINTR) return broken_off(errno);
    answered_ |= sent > 0;
    if (sent > 0) gathered.erase(gathered.begin(), gathered.begin() + sent);
  }
  return true;
}

/// Looks at what the peer says first without taking it: for anybody who does not speak TLS no memory is spent on TLS.
Result<bool> Handshake::first_bytes_came() {
  const ssize_t got = ::recv(fd(), first_.data(), first_.size(), MSG_PEEK | MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return false;
  if (got <= 0) return broken_off(got == 0 ? 0 : errno);
  first_count_ = static_cast<std::size_t>(got);
  if (!looks_like_tls(std::span(first_).first(first_count_))) return not_troupe();
  return true;
}

Error Handshake::not_troupe() const {
  return no_handshake(fmt::format("TRP-S701 {}: not a Troupe connection (first bytes {:02x})", connection_->address,
                                  fmt::join(std::span(first_).first(first_count_), " ")));
}

/// `error`: errno, 0 at the end of the stream.
Error Handshake::broken_off(int error) const {
  const bool closed = error == 0 || error == ECONNRESET || error == EPIPE;
  return no_handshake(closed ? fmt::format("link: {} closed the connection", connection_->address)
                             : fmt::format("link: {}: {}", connection_->address, std::strerror(error)));
}

void Handshake::make_ssl() {
  OpenSslPtr<SSL, SSL_free> ssl(SSL_new(&context_));
  BIO* const read = BIO_new_socket(fd(), BIO_NOCLOSE);
  TROUPE_CHECK(ssl != nullptr && read != nullptr, "OpenSSL is out of memory");
  SSL_set_bio(ssl.get(), read, make_gathering_bio(connection_->gathered));  // owned by ssl from here
  report_rejection_to(*ssl, connection_->rejection);
  options_.side == Side::kAccept ? SSL_set_accept_state(ssl.get()) : SSL_set_connect_state(ssl.get());
  connection_->ssl = std::move(ssl);
}

Result<bool> Handshake::shake_hands() {
  if (connection_->ssl == nullptr) make_ssl();
  ERR_clear_error();
  errno = 0;
  const int result = SSL_do_handshake(connection_->ssl.get());
  if (result == 1) return true;
  if (SSL_get_error(connection_->ssl.get(), result) == SSL_ERROR_WANT_READ) return false;
  return failed(result);
}

/// Checks who the peer is and says this node's first frame, which is all that a refused peer gets.
Status Handshake::greet() {
  auto info = peer_certificate(*connection_->ssl);
  if (info.ok()) {
    connection_->peer = std::move(info->identity);
    if (const Status admitted = options_.admit(connection_->peer); !admitted.ok()) refusal_ = admitted.error();
  } else {
    refusal_ = no_handshake(
        fmt::format("TRP-S710 peer certificate rejected: {} ({})", info.error().message, connection_->address));
  }
  std::array<std::byte, 4> versions;
  std::memcpy(versions.data(), &options_.protocol.oldest, 2);
  std::memcpy(versions.data() + 2, &options_.protocol.newest, 2);
  std::span<const std::byte> payload = versions;
  FrameKind kind = FrameKind::kWelcome;
  std::string why;
  if (refusal_.has_value()) {
    kind = FrameKind::kRefusal;
    why = refusal_->message.substr(0, kWelcomeBytesMax);
    payload = std::as_bytes(std::span(why));
  }
  const FrameHeaderBytes header = encode_header({kind, static_cast<std::uint32_t>(payload.size()), 0}, {}).value();
  for (const auto& part : {std::span<const std::byte>(header), payload}) {
    std::size_t written = 0;
    ERR_clear_error();
    const int result = SSL_write_ex(connection_->ssl.get(), part.data(), part.size(), &written);
    if (result != 1) return failed(result);
  }
  greeted_ = true;
  return {};
}

Result<bool> Handshake::read_welcome() {
  for (;;) {
    const std::size_t want = kFrameHeaderBytes + (welcome_header_.has_value() ? welcome_header_->length : 0);
    while (welcome_got_ < want) {
      std::size_t got = 0;
      ERR_clear_error();
      errno = 0;
      const int result = SSL_read_ex(connection_->ssl.get(), welcome_.data() + welcome_got_, want - welcome_got_, &got);
      if (result != 1 && SSL_get_error(connection_->ssl.get(), result) == SSL_ERROR_WANT_READ) return false;
      if (result != 1) return refusal_.has_value() ? *refusal_ : failed(result);
      welcome_got_ += got;
    }
    if (welcome_header_.has_value()) break;
    TROUPE_ASSIGN(welcome_header_, decode_header(std::span(welcome_).first<kFrameHeaderBytes>(), options_.limits, 0));
    if (welcome_header_->kind != FrameKind::kWelcome && welcome_header_->kind != FrameKind::kRefusal) {
      return Error{Code::kCorrupt, fmt::format("link: {}: the first frame is no welcome", connection_->address)};
    }
  }
  if (refusal_.has_value()) return *refusal_;
  const auto payload = std::span<const std::byte>(welcome_).subspan(kFrameHeaderBytes, welcome_header_->length);
  if (welcome_header_->kind == FrameKind::kRefusal) {
    const std::string_view why(reinterpret_cast<const char*>(payload.data()), payload.size());
    return no_handshake(fmt::format("link: {} refused this node: {}", connection_->address, printable(why)));
  }
  ProtocolRange theirs;
  if (payload.size() < 4) {
    return Error{Code::kCorrupt, fmt::format("link: {}: the welcome is cut short", connection_->address)};
  }
  std::memcpy(&theirs.oldest, payload.data(), 2);
  std::memcpy(&theirs.newest, payload.data() + 2, 2);
  const ProtocolRange& ours = options_.protocol;
  if (theirs.oldest > ours.newest || theirs.newest < ours.oldest) {
    const std::string spoken = theirs.oldest == theirs.newest ? fmt::to_string(theirs.newest)
                                                              : fmt::format("{}..{}", theirs.oldest, theirs.newest);
    return Error{Code::kInvalidArgument, fmt::format("TRP-E160 peer speaks protocol {}, this node {}..{}: upgrade one "
                                                     "of them ({})",
                                                     spoken, ours.oldest, ours.newest, connection_->address)};
  }
  return true;
}

/// Why an OpenSSL call on the connection failed.
Error Handshake::failed(int result) {
  const int system_error = errno;
  const int error = SSL_get_error(connection_->ssl.get(), result);
  const std::string& address = connection_->address;
  if (error == SSL_ERROR_ZERO_RETURN) return broken_off(0);
  if (error == SSL_ERROR_SYSCALL) return broken_off(system_error);
  const int reason = ERR_GET_REASON(ERR_peek_error());
  const std::string text = take_openssl_errors();
  if (!connection_->rejection.empty()) {
    return no_handshake(fmt::format("TRP-S710 peer certificate rejected: {} ({})", connection_->rejection, address));
  }
  switch (reason) {
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
      return no_handshake(fmt::format("TRP-S710 peer certificate rejected: none shown ({})", address));
    case SSL_R_UNSUPPORTED_PROTOCOL:
      return no_handshake(fmt::format("TRP-S710 peer rejected: it offers no TLS 1.3 ({})", address));
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_HTTP_REQUEST:
      return not_troupe();
    case SSL_R_UNEXPECTED_EOF_WHILE_READING:
      return broken_off(0);
    default:
      // Above the offset they are what the peer's alert says.
      if (reason < SSL_AD_REASON_OFFSET) return no_handshake(fmt::format("TRP-S701 {}: {}", address, text));
      return no_handshake(fmt::format("link: {} refused this node: {}", address, text));
  }
}

}  // namespace troupe::transport
