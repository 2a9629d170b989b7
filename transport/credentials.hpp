#pragma once
// What a node shows and trusts on every connection: its certificate and key, and its run's authority. A node makes its
// own key and gets the certificate for it from the chief (authority.hpp, join_token.hpp), keeps both in a folder of its
// own, and opens links and CAF's connections with them.
#include <chrono>
#include <string>
#include <string_view>

#include <troupe/core/error.hpp>
#include <troupe/transport/identity.hpp>

namespace troupe::transport {

/// Calendar time, for how long certificates and tokens are valid and nothing else. It comes in by parameter.
using WallTime = std::chrono::system_clock::time_point;

/// "2025-06-30T12:00:00Z".
std::string format_time(WallTime time);
/// The opposite. Errors: kInvalidArgument.
Result<WallTime> parse_time(const std::string& text);

/// As PEM text. All three are required: there is no connection without mutual TLS.
struct Credentials {
  std::string authority;    ///< certificate of the run's authority, the only one trusted
  std::string certificate;  ///< this node's, signed by the authority, with its identity as URI
  std::string key;          ///< this node's private key
};

/// What a certificate says. Reading it proves nothing: only a handshake does.
struct CertificateInfo {
  Identity identity;
  WallTime valid_from;
  WallTime valid_until;
};

/// Errors: kInvalidArgument: no certificate, or its only subject alternative name is not an identity's URI.
Result<CertificateInfo> read_certificate(std::string_view pem);

/// Whether the three belong together, and what the certificate says; not whether it is valid now. Errors:
/// kInvalidArgument naming the part that is missing or does not fit.
Result<CertificateInfo> check(const Credentials& credentials);

/// SHA-256 of a certificate, 64 lower-case hexadecimal digits, for people to compare. Errors: kInvalidArgument.
Result<std::string> fingerprint(std::string_view pem);

/// A new P-256 key, which never leaves the node, and the request to certify it. The request names nobody: who the node
/// is decides the signer.
struct NodeRequest {
  std::string key;      ///< PEM
  std::string request;  ///< PEM, a certificate signing request
};
NodeRequest make_request();

/// Where credentials lie in a node's folder; CAF's TLS wants paths. Certificate and key share a file, so that they
/// change together.
struct CredentialFiles {
  std::string authority;  ///< FOLDER/authority.pem
  std::string node;       ///< FOLDER/node.pem: certificate, then key
};
CredentialFiles credential_files(const std::string& folder);

/// Makes the folder with mode 0700 if it is missing, and replaces its files, of mode 0600. Errors: kInvalidArgument
/// (the folder is open to others), kIo.
Status save_credentials(const Credentials& credentials, const std::string& folder);

/// Errors: kNotFound, kInvalidArgument: a file that others can read, or whose parts do not fit together, or a
/// certificate that is not valid at `now`.
Result<Credentials> load_credentials(const std::string& folder, WallTime now);

}  // namespace troupe::transport
