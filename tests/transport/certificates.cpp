#include <troupe/tests/transport/certificates.hpp>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <troupe/core/check.hpp>

namespace troupe::transport::testing {
namespace {

std::string drain(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<std::size_t>(size));
  BIO_free(bio);
  return text;
}

std::string pem(X509* certificate) {
  BIO* bio = BIO_new(BIO_s_mem());
  TROUPE_CHECK(PEM_write_bio_X509(bio, certificate) == 1, "PEM");
  return drain(bio);
}

std::string pem(EVP_PKEY* key) {
  BIO* bio = BIO_new(BIO_s_mem());
  TROUPE_CHECK(PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr) == 1, "PEM");
  return drain(bio);
}

X509* make_certificate(EVP_PKEY* key, const char* name, const CertificateOptions& options, X509* issuer,
                       EVP_PKEY* issuer_key) {
  static long serial = 0;
  X509* certificate = X509_new();
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), ++serial);
  X509_gmtime_adj(X509_getm_notBefore(certificate), options.valid_from_s);
  X509_gmtime_adj(X509_getm_notAfter(certificate), options.valid_until_s);
  X509_set_pubkey(certificate, key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name), -1, -1, 0);
  X509_set_issuer_name(certificate, X509_get_subject_name(issuer != nullptr ? issuer : certificate));
  const auto extend = [&](int id, const std::string& value) {
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, id, value.c_str());
    TROUPE_CHECK(extension != nullptr, "extension {}", value);
    X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
  };
  extend(NID_basic_constraints, issuer == nullptr ? "critical,CA:TRUE" : "critical,CA:FALSE");
  if (!options.uri.empty()) extend(NID_subject_alt_name, "URI:" + options.uri);
  TROUPE_CHECK(X509_sign(certificate, issuer_key, nullptr) > 0, "Ed25519 signature");
  return certificate;
}

}  // namespace

Authority::Authority() {
  EVP_PKEY* key = EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519");
  key_ = key;
  certificate_ = make_certificate(key, "run authority", {}, nullptr, key);
}

Authority::~Authority() {
  X509_free(static_cast<X509*>(certificate_));
  EVP_PKEY_free(static_cast<EVP_PKEY*>(key_));
}

std::string Authority::certificate() const { return pem(static_cast<X509*>(certificate_)); }

Credentials Authority::issue(const CertificateOptions& options) const {
  EVP_PKEY* key = EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519");
  X509* leaf = make_certificate(key, "node", options, static_cast<X509*>(certificate_), static_cast<EVP_PKEY*>(key_));
  Credentials credentials{certificate(), pem(leaf), pem(key)};
  X509_free(leaf);
  EVP_PKEY_free(key);
  return credentials;
}

}  // namespace troupe::transport::testing
