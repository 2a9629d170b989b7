#pragma once
// OpenSSL set up the one way that Troupe allows: TLS 1.3, mutual certificates, one authority. Internal to transport/.
#include <openssl/ssl.h>

#include <memory>
#include <string>

#include <troupe/core/error.hpp>
#include <troupe/transport/link.hpp>

namespace troupe::transport {

/// Frees OpenSSL objects of type T by Free.
template <auto Free>
struct OpenSslFree {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
template <typename T, auto Free>
using OpenSslPtr = std::unique_ptr<T, OpenSslFree<Free>>;

using ContextPtr = OpenSslPtr<SSL_CTX, SSL_CTX_free>;

/// Errors: kInvalidArgument naming which of the credentials is missing or does not fit.
Result<ContextPtr> make_context(const Credentials& credentials);

/// The first URI among the subject alternative names of the peer's verified certificate. Errors: kUnavailable.
Result<std::string> peer_uri(const SSL& ssl);

/// Takes everything off this thread's OpenSSL error queue: "certificate verify failed; ...".
std::string take_openssl_errors();

}  // namespace troupe::transport
