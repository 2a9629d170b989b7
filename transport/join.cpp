#include <troupe/transport/join.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include <troupe/core/text.hpp>
#include <troupe/transport/dial.hpp>

namespace troupe::transport {
namespace {

// The request is the token's id and then the certificate request; the answer is one of these and then a text.
constexpr std::string_view kCertified = "+";
constexpr std::string_view kRefused = "-";
constexpr std::size_t kIdBytes = 64;
/// For the request and the answer; a certificate takes less than 1 KiB.
constexpr FrameLimits kLimits{.data_bytes = 0, .control_bytes = 32 * 1024};

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

Status send(Link& link, std::string_view head, std::string_view body, Duration timeout) {
  const std::array parts{bytes_of(head), bytes_of(body)};
  return link.send(FrameKind::kControl, parts, timeout);
}

Result<std::string> receive(Link& link, Duration timeout) {
  TROUPE_ASSIGN(const ReceivedFrame frame, link.receive(timeout));
  return std::string(reinterpret_cast<const char*>(frame.payload.data()), frame.payload.size());
}

Result<std::string> certify(std::string_view request, std::string_view bearer, const Authority& authority,
                            TokenLedger& tokens, WallTime now, const Admit& may_be, Identity& node) {
  TROUPE_ASSIGN(node, tokens.redeem(request.substr(0, kIdBytes), bearer, now));
  if (may_be) TROUPE_TRY(may_be(node));
  return authority.sign(request.substr(std::min(kIdBytes, request.size())), node, now);
}

}  // namespace

Result<Credentials> join(const JoinToken& token, Duration timeout, std::stop_token stop) {
  const SteadyClock clock;
  const Duration deadline = clock.now() + timeout;
  const NodeRequest request = make_request();  // first, as it takes a moment, and the chief does not wait for long
  const auto admit = [&](const Identity& peer) -> Status {
    if (peer.run == token.node.run && peer.has_role(kChiefRole)) return {};
    return Error{Code::kUnavailable, fmt::format("TRP-S710 peer certificate rejected: it is of {}, expected the chief",
                                                 to_uri(peer).value())};
  };
  const LinkOptions options{.side = Side::kDial,
                            .admit = admit,
                            .handshake_timeout = deadline - clock.now(),
                            .limits = kLimits,
                            .stop = stop};
  TROUPE_ASSIGN(const auto link, dial_link(token.chief, token.join, options, timeout));
  const std::stop_callback on_stop(stop, [&] { link->close(); });
  TROUPE_TRY(send(*link, token.id, request.request, deadline - clock.now()));
  TROUPE_ASSIGN(const std::string answer, receive(*link, deadline - clock.now()));
  if (!answer.starts_with(kCertified)) {
    return Error{Code::kUnavailable, fmt::format("join: {} says: {}", to_string(token.chief),
                                                 printable(answer.substr(std::min(kRefused.size(), answer.size()))))};
  }
  Credentials credentials{token.join.authority, answer.substr(kCertified.size()), request.key};
  const auto certificate = check(credentials);
  if (certificate.ok() && certificate->identity == token.node) return credentials;
  return Error{Code::kUnavailable,
               fmt::format("join: {} sent a certificate that does not fit: {}", to_string(token.chief),
                           certificate.ok() ? "of another node" : certificate.error().message)};
}

Result<Identity> answer_join(Link& peer, const Authority& authority, TokenLedger& tokens, WallTime now,
                             Duration timeout, const Admit& may_be) {
  TROUPE_ASSIGN(const std::string request, receive(peer, timeout));
  Identity node;
  const auto certificate = certify(request, peer.peer().node, authority, tokens, now, may_be, node);
  if (!certificate.ok()) {
    (void)send(peer, kRefused, certificate.error().message, timeout);
    return certificate.error();
  }
  TROUPE_TRY(send(peer, kCertified, *certificate, timeout));
  return node;
}

}  // namespace troupe::transport
