#include <troupe/transport/authority.hpp>

#include <fmt/format.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <algorithm>
#include <optional>

#include <troupe/core/check.hpp>
#include <troupe/transport/detail/openssl.hpp>
#include <troupe/transport/detail/private_files.hpp>

namespace troupe::transport {
namespace {

constexpr std::size_t kRequestBytesMax = 16 * 1024;
constexpr std::size_t kFileBytesMax = 64 * 1024;

Error invalid(std::string message) { return Error{Code::kInvalidArgument, "authority: " + std::move(message)}; }

std::string key_file(const std::string& folder) { return folder + "/authority.key"; }

/// What a new certificate says.
struct Draft {
  std::string name;  ///< common name: for people, nothing is decided by it
  std::string uri;   ///< empty for an authority
  WallTime from;
  WallTime until;
};

/// Signs `draft` for `key`; issuer null: by itself, as an authority. Running out of memory is all that can fail here.
X509Ptr make_certificate(const Draft& draft, EVP_PKEY* key, X509* issuer, EVP_PKEY* issuer_key) {
  X509Ptr certificate(X509_new());
  const auto check = [](bool done) { TROUPE_CHECK(done, "certificate: {}", take_openssl_errors()); };
  check(certificate != nullptr && X509_set_version(certificate.get(), X509_VERSION_3) == 1);

  // Random, so that a serial number neither repeats nor counts the certificates; 159 bits, so that it is positive.
  const OpenSslPtr<BIGNUM, BN_free> serial(BN_new());
  check(BN_rand(serial.get(), 159, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) == 1 &&
        BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(certificate.get())) != nullptr);

  const auto seconds = [](WallTime time) { return std::chrono::system_clock::to_time_t(time); };
  check(ASN1_TIME_set(X509_getm_notBefore(certificate.get()), seconds(draft.from)) != nullptr &&
        ASN1_TIME_set(X509_getm_notAfter(certificate.get()), seconds(draft.until)) != nullptr);

  X509_NAME* const subject = X509_get_subject_name(certificate.get());
  check(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                                   reinterpret_cast<const unsigned char*>(draft.name.c_str()), -1, -1, 0) == 1 &&
        X509_set_issuer_name(certificate.get(), issuer != nullptr ? X509_get_subject_name(issuer) : subject) == 1 &&
        X509_set_pubkey(certificate.get(), key) == 1);

  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer != nullptr ? issuer : certificate.get(), certificate.get(), nullptr, nullptr, 0);
  const auto extend = [&](int id, const std::string& value) {
    const OpenSslPtr<X509_EXTENSION, X509_EXTENSION_free> extension(
        X509V3_EXT_conf_nid(nullptr, &context, id, value.c_str()));
    check(extension != nullptr && X509_add_ext(certificate.get(), extension.get(), -1) == 1);
  };
  extend(NID_subject_key_identifier, "hash");
  if (issuer == nullptr) {
    extend(NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
    extend(NID_key_usage, "critical,keyCertSign");
  } else {
    extend(NID_authority_key_identifier, "keyid:always");
    extend(NID_basic_constraints, "critical,CA:FALSE");
    extend(NID_key_usage, "critical,digitalSignature");
    extend(NID_ext_key_usage, "serverAuth,clientAuth");  // every node both dials and accepts
    extend(NID_subject_alt_name, "URI:" + draft.uri);
  }
  check(X509_sign(certificate.get(), issuer_key, EVP_sha256()) > 0);
  return certificate;
}

/// Keys as strong as the authority's own, and of the kinds that TLS 1.3 knows.
bool is_strong(const EVP_PKEY* key) {
  if (EVP_PKEY_is_a(key, "ED25519")) return true;
  char group[32];
  std::size_t size = 0;
  return EVP_PKEY_is_a(key, "EC") && EVP_PKEY_get_group_name(key, group, sizeof(group), &size) == 1 &&
         std::string_view(group, size) == "prime256v1";
}

}  // namespace

Result<Authority> Authority::create(std::string_view run, WallTime now) {
  if (!is_name(run)) return invalid(fmt::format("run \"{}\" is no name (identity.hpp)", run.substr(0, kNameBytesMax)));
  const KeyPtr key = make_key();
  const Draft draft{.name = std::string(run), .from = now - kClockSkew, .until = now + kAuthorityLifetime};
  const X509Ptr certificate = make_certificate(draft, key.get(), nullptr, key.get());
  return Authority(std::string(run), to_pem(certificate.get()), to_pem(key.get()));
}

Status Authority::save(const std::string& folder) const {
  TROUPE_TRY(make_private_folder(folder));
  struct stat status;
  if (lstat(key_file(folder).c_str(), &status) == 0) {
    return Error{Code::kAlreadyExists, fmt::format("authority: {} exists already", key_file(folder))};
  }
  return write_private_file(key_file(folder), certificate_ + key_);
}

Result<Authority> Authority::load(const std::string& folder, WallTime now) {
  const std::string path = key_file(folder);
  close_to_group(folder);
  TROUPE_ASSIGN(const std::string text, read_private_file(path, kFileBytesMax, GroupMay::kClose));
  const X509Ptr certificate = parse_certificate(text);
  const KeyPtr key = parse_key(text);
  if (certificate == nullptr || key == nullptr || X509_check_private_key(certificate.get(), key.get()) != 1 ||
      X509_check_ca(certificate.get()) != 1) {
    return invalid(fmt::format("{}: expected an authority's certificate and its key: {}", path, take_openssl_errors()));
  }
  const Validity validity = validity_of(*certificate);
  if (now < validity.from || now >= validity.until) {
    return invalid(fmt::format("{}: valid from {} until {}, and it is {}", path, format_time(validity.from),
                               format_time(validity.until), format_time(now)));
  }
  char run[kNameBytesMax + 1] = {};
  X509_NAME_get_text_by_NID(X509_get_subject_name(certificate.get()), NID_commonName, run, sizeof(run));
  if (!is_name(run)) return invalid(fmt::format("{}: its certificate does not name a run", path));
  return Authority(run, to_pem(certificate.get()), to_pem(key.get()));
}

Result<Credentials> Authority::issue(const Identity& identity, WallTime now, std::chrono::seconds lifetime) const {
  const NodeRequest request = make_request();
  TROUPE_ASSIGN(std::string certificate, sign(request.request, identity, now, lifetime));
  return Credentials{certificate_, std::move(certificate), request.key};
}

Result<std::string> Authority::sign(std::string_view request_pem, const Identity& identity, WallTime now,
                                    std::chrono::seconds lifetime) const {
  TROUPE_ASSIGN(std::string uri, to_uri(identity));
  if (identity.run != run_) return invalid(fmt::format("{} is of another run than \"{}\"", uri, run_));
  if (request_pem.size() > kRequestBytesMax) {
    return invalid(fmt::format("request of {} bytes, expected at most {}", request_pem.size(), kRequestBytesMax));
  }
  const X509ReqPtr request = parse_request(request_pem);
  if (request == nullptr) return invalid("not a certificate request: " + take_openssl_errors());
  EVP_PKEY* const key = X509_REQ_get0_pubkey(request.get());
  if (key == nullptr || !is_strong(key)) return invalid("the request's key is neither P-256 nor Ed25519");
  if (X509_REQ_verify(request.get(), key) != 1) {
    return invalid("the request is not signed by its own key: " + take_openssl_errors());
  }
  const X509Ptr issuer = parse_certificate(certificate_);
  const KeyPtr issuer_key = parse_key(key_);
  TROUPE_CHECK(issuer != nullptr && issuer_key != nullptr, "authority: {}", take_openssl_errors());
  const WallTime until =
      std::min(now + std::min<std::chrono::seconds>(lifetime, kNodeLifetime), validity_of(*issuer).until);
  const Draft draft{.name = identity.node, .uri = std::move(uri), .from = now - kClockSkew, .until = until};
  return to_pem(make_certificate(draft, key, issuer.get(), issuer_key.get()).get());
}

}  // namespace troupe::transport
