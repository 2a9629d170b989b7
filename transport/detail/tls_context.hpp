#pragma once
// OpenSSL set up the one way that Troupe allows: TLS 1.3, mutual certificates, one authority. Internal to transport/.
#include <openssl/ssl.h>

#include <string>

#include <troupe/core/error.hpp>
#include <troupe/transport/credentials.hpp>
#include <troupe/transport/detail/openssl.hpp>

namespace troupe::transport {

using ContextPtr = OpenSslPtr<SSL_CTX, SSL_CTX_free>;

/// Errors: kInvalidArgument naming which of the credentials is missing or does not fit.
Result<ContextPtr> make_context(const Credentials& credentials);

/// Where to write why the peer's certificate does not pass ("expired 2021-01-01T00:00:00Z"). `reason` must outlive ssl.
void report_rejection_to(SSL& ssl, std::string& reason);

/// What the peer's certificate, which has passed, says. Errors: kInvalidArgument: it names no identity.
Result<CertificateInfo> peer_certificate(const SSL& ssl);

}  // namespace troupe::transport
