#include <troupe/transport/detail/tls_context.hpp>

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

namespace troupe::transport {
namespace {

Error bad_credentials(std::string_view what) {
  return Error{Code::kInvalidArgument, fmt::format("link credentials: {}: {}", what, take_openssl_errors())};
}

}  // namespace

Result<ContextPtr> make_context(const Credentials& credentials) {
  ERR_clear_error();
  ContextPtr context(SSL_CTX_new(TLS_method()));
  if (context == nullptr) return bad_credentials("cannot make a context");
  SSL_CTX* const raw = context.get();
  if (SSL_CTX_set_min_proto_version(raw, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(raw, "TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256") != 1) {
    return bad_credentials("TLS 1.3 is not available");
  }
  SSL_CTX_set_verify(raw, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_set_session_cache_mode(raw, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(raw, 0);     // no resumption: every connection proves itself
  SSL_CTX_set_max_early_data(raw, 0);  // nothing before the handshake is done
  SSL_CTX_set_options(raw, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
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

Result<std::string> peer_uri(const SSL& ssl) {
  const X509Ptr certificate(SSL_get1_peer_certificate(&ssl));
  if (certificate == nullptr) return Error{Code::kUnavailable, "link: the peer showed no certificate"};
  const OpenSslPtr<GENERAL_NAMES, GENERAL_NAMES_free> names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate.get(), NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    const ASN1_IA5STRING* const uri = name->d.uniformResourceIdentifier;
    // By length: a NUL inside must not make a longer name look like a shorter one.
    return std::string(reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                       static_cast<std::size_t>(ASN1_STRING_length(uri)));
  }
  return Error{Code::kUnavailable, "link: the peer's certificate has no URI"};
}

}  // namespace troupe::transport
