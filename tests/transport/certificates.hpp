#pragma once
// Certificates that Authority would never issue, for tests of who is refused.
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <troupe/transport/authority.hpp>

namespace troupe::transport::testing {

struct OddCertificate {
  std::string names;  ///< subject alternative names as OpenSSL writes them, e.g. "URI:a,DNS:b"; empty: none
  int rsa_bits = 0;   ///< 0: a P-256 key
};

/// Signed by a run's real authority, so that nothing else is wrong with it.
Credentials issue_odd(const Authority& authority, const OddCertificate& odd);

/// A client that speaks plain OpenSSL instead of Link, up to `max_version`. Takes over `fd`. `credentials` null: shows
/// no certificate. Blocks SIGPIPE on its thread, which should be its own. Says `bytes`, waits until the peer has closed
/// or said its first byte, and closes.
void dial_raw(int fd, int max_version, const Credentials* credentials, std::span<const std::byte> bytes = {});
/// What a node of protocol 1 says first.
std::vector<std::byte> raw_welcome();

}  // namespace troupe::transport::testing
