#pragma once
// How a host that is not yet part of a run gets in: a file that the user makes beside the chief (`troupe token`),
// carries over, and that is good for one node, once, for some minutes. In it are the run's authority, so that the node
// knows the chief when it meets it, and a certificate of the role "join", so that even that meeting is mutual TLS; with
// it a node may do nothing but trade the token for a certificate of its own. The chief keeps account in a TokenLedger.
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include <troupe/core/clock.hpp>
#include <troupe/core/error.hpp>
#include <troupe/transport/address.hpp>
#include <troupe/transport/authority.hpp>
#include <troupe/transport/credentials.hpp>

namespace troupe::transport {

/// The role in the certificate of a token. No node has it.
inline constexpr std::string_view kJoinRole = "join";
/// Usual and longest life of a token.
inline constexpr std::chrono::minutes kTokenLifetime{10};
inline constexpr std::chrono::hours kTokenLifetimeMax{24};

struct JoinToken {
  Address chief;
  Identity node;     ///< who the bearer will be
  std::string id;    ///< the secret: 64 hexadecimal digits
  WallTime expires;  ///< with the certificate
  Credentials join;
};

/// What load_join_token() reads. It is a secret. Errors: kInvalidArgument (identity).
Result<std::string> to_text(const JoinToken& token);
/// Writes a file of mode 0600. Errors: kIo.
Status save_join_token(const JoinToken& token, const std::string& path);

/// Errors: kNotFound, kInvalidArgument: others can read the file, it is too large, malformed, or expired at `now`.
Result<JoinToken> load_join_token(const std::string& path, WallTime now);
/// The same from text; `origin` says in errors where it is from.
Result<JoinToken> parse_join_token(std::string_view text, std::string_view origin, WallTime now);

/// What the chief knows about tokens: a file for each in SECURITY_FOLDER/tokens, so that `troupe token` can add one
/// while the chief runs, and a restarted chief still knows which were used. The secrets are not in it, only their
/// hashes. Any thread.
class TokenLedger {
 public:
  /// Tokens at a time; further ones are refused until some have been expired for a day.
  static constexpr std::size_t kTokensMax = 1000;
  /// Wrong ids in a minute from one bearer, which its certificate names; then none of its is looked at until the minute
  /// is over. Other bearers, who may have a good token, do not wait for that.
  static constexpr std::size_t kFailuresMax = 10;

  /// `security_folder` is the authority's (Authority::save) and exists. `clock` counts the minute.
  TokenLedger(const std::string& security_folder, const Clock& clock);

  /// `node`: who the bearer will be; without a name it gets its first role and random digits. Errors: kInvalidArgument
  /// (identity, lifetime, a folder open to others), kUnavailable (kTokensMax), kIo.
  Result<JoinToken> issue(const Authority& authority, Identity node, const Address& chief, WallTime now,
                          std::chrono::seconds lifetime = kTokenLifetime);

  /// Uses a token up: of all calls with one id, on any chief and before or after a restart, exactly one succeeds, and
  /// says who to certify. `bearer`: the name in the certificate of who brings it. Errors: kInvalidArgument (unknown,
  /// used, expired), kUnavailable (too many wrong ones), kIo.
  Result<Identity> redeem(std::string_view id, std::string_view bearer, WallTime now);

 private:
  Result<Identity> look_up(std::string_view id, WallTime now) const;
  Status make_room(WallTime now) const;
  std::string open_file(const std::string& handle) const;
  std::string used_file(const std::string& handle) const;

  const std::string folder_;
  const Clock& clock_;
  std::mutex mutex_;
  /// When, by bearer: at most kFailuresMax each, of at most kTokensMax bearers, since nobody else has a certificate.
  std::map<std::string, std::deque<Duration>, std::less<>> failures_;
};

}  // namespace troupe::transport
