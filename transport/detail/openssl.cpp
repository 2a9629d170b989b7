#include <troupe/transport/detail/openssl.hpp>

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <chrono>

#include <troupe/core/check.hpp>

namespace troupe::transport {
namespace {

BioPtr memory_bio(std::string_view text) { return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))); }

int no_password(char*, int, int, void*) { return -1; }

template <typename Write>
std::string written(Write write) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  TROUPE_CHECK(bio != nullptr && write(bio.get()) == 1, "PEM: {}", take_openssl_errors());
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<std::size_t>(size));
}

}  // namespace

std::string take_openssl_errors() {
  std::string text;
  while (const unsigned long code = ERR_get_error()) {
    const char* reason = ERR_reason_error_string(code);
    if (!text.empty()) text += "; ";
    text += reason != nullptr ? std::string(reason) : fmt::format("OpenSSL error {:x}", code);
  }
  return text.empty() ? "no reason given" : text;
}

X509Ptr parse_certificate(std::string_view pem) {
  return X509Ptr(PEM_read_bio_X509(memory_bio(pem).get(), nullptr, no_password, nullptr));
}

KeyPtr parse_key(std::string_view pem) {
  return KeyPtr(PEM_read_bio_PrivateKey(memory_bio(pem).get(), nullptr, no_password, nullptr));
}

X509ReqPtr parse_request(std::string_view pem) {
  return X509ReqPtr(PEM_read_bio_X509_REQ(memory_bio(pem).get(), nullptr, no_password, nullptr));
}

std::string to_pem(X509* certificate) {
  return written([&](BIO* bio) { return PEM_write_bio_X509(bio, certificate); });
}

std::string to_pem(EVP_PKEY* key) {
  return written([&](BIO* bio) { return PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr); });
}

std::string to_pem(X509_REQ* request) {
  return written([&](BIO* bio) { return PEM_write_bio_X509_REQ(bio, request); });
}

KeyPtr make_key() {
  KeyPtr key(EVP_EC_gen("P-256"));
  TROUPE_CHECK(key != nullptr, "P-256 key: {}", take_openssl_errors());
  return key;
}

WallTime to_wall_time(std::tm fields) {
  using std::chrono::seconds;
  constexpr auto kFirst = std::chrono::ceil<seconds>(WallTime::min().time_since_epoch());
  constexpr auto kLast = std::chrono::floor<seconds>(WallTime::max().time_since_epoch());
  return WallTime(std::clamp(seconds(timegm(&fields)), kFirst, kLast));
}

Validity validity_of(const X509& certificate) {
  const auto time = [](const ASN1_TIME* asn1) {
    std::tm fields{};
    // A date that is none gives the epoch, which is long over: not valid.
    if (ASN1_TIME_to_tm(asn1, &fields) != 1) fields = std::tm{.tm_mday = 1, .tm_year = 70};
    return to_wall_time(fields);
  };
  return {time(X509_get0_notBefore(&certificate)), time(X509_get0_notAfter(&certificate))};
}

Result<CertificateInfo> read_certificate(X509& certificate) {
  const OpenSslPtr<GENERAL_NAMES, GENERAL_NAMES_free> names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr)));
  // One name, so that there is nothing to choose from.
  const GENERAL_NAME* const name =
      names != nullptr && sk_GENERAL_NAME_num(names.get()) == 1 ? sk_GENERAL_NAME_value(names.get(), 0) : nullptr;
  if (name == nullptr || name->type != GEN_URI) {
    return Error{Code::kInvalidArgument, "certificate: expected one URI as its only subject alternative name"};
  }
  // By length: a NUL inside must not make a longer name look like a shorter one.
  const ASN1_IA5STRING* const uri = name->d.uniformResourceIdentifier;
  const std::string_view text(reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                              static_cast<std::size_t>(ASN1_STRING_length(uri)));
  TROUPE_ASSIGN(Identity identity, parse_identity(text));
  const Validity validity = validity_of(certificate);
  return CertificateInfo{std::move(identity), validity.from, validity.until};
}

}  // namespace troupe::transport
