#pragma once
// OpenSSL objects that free themselves, its error queue as text, and PEM in and out. Internal to transport/.
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include <ctime>
#include <memory>
#include <string>
#include <string_view>

#include <troupe/transport/credentials.hpp>

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

using BioPtr = OpenSslPtr<BIO, BIO_free>;
using KeyPtr = OpenSslPtr<EVP_PKEY, EVP_PKEY_free>;
using X509Ptr = OpenSslPtr<X509, X509_free>;
using X509ReqPtr = OpenSslPtr<X509_REQ, X509_REQ_free>;

/// Takes everything off this thread's OpenSSL error queue: "certificate verify failed; ...".
std::string take_openssl_errors();

/// The first object of its kind in the text, or null; the reason stays on the error queue. Encrypted keys give null,
/// and never a question on the terminal.
X509Ptr parse_certificate(std::string_view pem);
KeyPtr parse_key(std::string_view pem);
X509ReqPtr parse_request(std::string_view pem);

std::string to_pem(X509* certificate);
std::string to_pem(EVP_PKEY* key);
std::string to_pem(X509_REQ* request);

/// A new P-256 key.
KeyPtr make_key();

/// The moment that these fields of UTC name; one that WallTime's nanoseconds cannot hold (before 1678, after 2262)
/// becomes the first or the last that they can: "99991231235959Z" is how certificates say that they never end.
WallTime to_wall_time(std::tm fields);

struct Validity {
  WallTime from;
  WallTime until;
};
Validity validity_of(const X509& certificate);

/// As for PEM text (credentials.hpp).
Result<CertificateInfo> read_certificate(X509& certificate);

}  // namespace troupe::transport
