#include <troupe/transport/detail/tls_context.hpp>

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

namespace troupe::transport {
namespace {

Error bad_credentials(std::string_view what) {
  return Error{Code::kInvalidArgument, fmt::format("link credentials: {}: {}", what, take_openssl_errors())};
}

std::string rejection(X509_STORE_CTX* store) {
  const X509* const certificate = X509_STORE_CTX_get_current_cert(store);
  const int error = X509_STORE_CTX_get_error(store);
  switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return "expired " + format_time(validity_of(*certificate).until);
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return fmt::format("not valid before {}: are the clocks right?", format_time(validity_of(*certificate).from));
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      return "not issued by this run's authority";
    default:
      return X509_verify_cert_error_string(error);
  }
}

/// AES-128 is as strong as the P-256 keys around it and takes a fifth less time than AES-256.
constexpr const char* kCiphers = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
/// Several records in one read.
constexpr std::size_t kReadBufferBytes = 64 * 1024;

/// OpenSSL's verdict stands; this only keeps its reason, which the error of the handshake does not say.
int on_verified(int passed, X509_STORE_CTX* store) {
  const auto* const ssl =
      static_cast<const SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
  auto* const reason = static_cast<std::string*>(SSL_get_app_data(ssl));
  if (passed != 1 && reason != nullptr && reason->empty()) *reason = rejection(store);
  return passed;
}

}  // namespace

Result<ContextPtr> make_context(const Credentials& credentials) {
  ERR_clear_error();
  ContextPtr context(SSL_CTX_new(TLS_method()));
  if (context == nullptr) return bad_credentials("cannot make a context");
  SSL_CTX* const raw = context.get();
  if (SSL_CTX_set_min_proto_version(raw, TLS1_3_VERSION) != 1 || SSL_CTX_set_ciphersuites(raw, kCiphers) != 1) {
    return bad_credentials("TLS 1.3 is not available");
  }
  SSL_CTX_set_verify(raw, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, on_verified);
  SSL_CTX_set_security_level(raw, 3);  // keys of 128 bits of strength, whatever the system's configuration allows
  SSL_CTX_set_session_cache_mode(raw, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(raw, 0);     // no resumption: every connection proves itself
  SSL_CTX_set_max_early_data(raw, 0);  // nothing before the handshake is done
  SSL_CTX_set_options(raw, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_read_ahead(raw, 1);  // instead of one read for a record's header and one for the rest
  SSL_CTX_set_default_read_buffer_len(raw, kReadBufferBytes);
  SSL_CTX_set_mode(raw, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);

  const X509Ptr authority = parse_certificate(credentials.authority);
  if (authority == nullptr || X509_STORE_add_cert(SSL_CTX_get_cert_store(raw), authority.get()) != 1) {
    return bad_credentials("authority");
  }
  const X509Ptr certificate = parse_certificate(credentials.certificate);
  if (certificate == nullptr || SSL_CTX_use_certificate(raw, certificate.get()) != 1) {
    return bad_credentials("certificate");
  }
  const KeyPtr key = parse_key(credentials.key);
  if (key == nullptr || SSL_CTX_use_PrivateKey(raw, key.get()) != 1 || SSL_CTX_check_private_key(raw) != 1) {
    return bad_credentials("key");
  }
  return context;
}

void report_rejection_to(SSL& ssl, std::string& reason) { SSL_set_app_data(&ssl, &reason); }

Result<CertificateInfo> peer_certificate(const SSL& ssl) {
  const X509Ptr certificate(SSL_get1_peer_certificate(&ssl));
  if (certificate == nullptr) return Error{Code::kInvalidArgument, "none shown"};
  return read_certificate(*certificate);
}

}  // namespace troupe::transport
