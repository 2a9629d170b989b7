#pragma once
// A run's own certificate authority. The launcher makes it when the run begins and keeps it in RUN/security; it issues
// the certificates of the nodes it starts itself and, on the chief, signs the requests of nodes that join with a token.
// Whoever has its key can be any node of the run, and of this run only: no two runs share an authority.
#include <chrono>
#include <string>
#include <string_view>

#include <troupe/core/error.hpp>
#include <troupe/transport/credentials.hpp>

namespace troupe::transport {

/// How long an authority lives. A run that is resumed later than this needs a new one.
inline constexpr std::chrono::hours kAuthorityLifetime{365 * 24};
/// Longest and usual life of a node's certificate. It is checked when a connection is made; one that stands goes on.
inline constexpr std::chrono::hours kNodeLifetime{30 * 24};
/// Certificates are valid from this long before they are made, so that a node whose clock is late can use its own.
inline constexpr std::chrono::hours kClockSkew{1};

/// A value: certificate and key as PEM text. Stateless, so that the chief and `troupe token` may each have a copy.
class Authority {
 public:
  /// A new P-256 key. Errors: kInvalidArgument (`run` is no name).
  static Result<Authority> create(std::string_view run, WallTime now);

  /// From FOLDER/authority.key. Errors: kNotFound, kInvalidArgument (others can read the file, it is damaged, or it is
  /// not valid at `now`).
  static Result<Authority> load(const std::string& folder, WallTime now);

  /// Makes the folder with mode 0700 if it is missing, and writes FOLDER/authority.key, of mode 0600. Errors:
  /// kAlreadyExists (an authority is there: its nodes trust it and no other), kInvalidArgument (the folder is open to
  /// others), kIo.
  Status save(const std::string& folder) const;

  const std::string& run() const { return run_; }
  const std::string& certificate() const { return certificate_; }

  /// A certificate for a new key, for a node that gets both over a safe way. `lifetime` is cut at kNodeLifetime and at
  /// the authority's own end. Errors: kInvalidArgument (identity of another run, or malformed).
  Result<Credentials> issue(const Identity& identity, WallTime now,
                            std::chrono::seconds lifetime = kNodeLifetime) const;

  /// A certificate, as PEM, for the key in a request. The identity is this argument: what the request says about its
  /// sender is ignored. Errors: kInvalidArgument (as above; more than 16 KiB; not a request; a key that is neither
  /// P-256 nor Ed25519, or that the sender does not have).
  Result<std::string> sign(std::string_view request, const Identity& identity, WallTime now,
                           std::chrono::seconds lifetime = kNodeLifetime) const;

 private:
  Authority(std::string run, std::string certificate, std::string key)
      : run_(std::move(run)), certificate_(std::move(certificate)), key_(std::move(key)) {}

  std::string run_;
  std::string certificate_;
  std::string key_;
};

}  // namespace troupe::transport
