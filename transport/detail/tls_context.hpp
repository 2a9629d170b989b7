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

/// The first URI among the subject alternative names of the peer's verified certificate. Errors: kUnavailable.
Result<std::string> peer_uri(const SSL& ssl);

}  // namespace troupe::transport
