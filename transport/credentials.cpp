#include <troupe/transport/credentials.hpp>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <ctime>

#include <troupe/core/check.hpp>
#include <troupe/core/sha256.hpp>
#include <troupe/core/text.hpp>
#include <troupe/transport/detail/openssl.hpp>
#include <troupe/transport/detail/private_files.hpp>

namespace troupe::transport {
namespace {

/// Much more than a certificate and a key take.
constexpr std::size_t kCredentialBytesMax = 64 * 1024;

Error invalid_credentials(std::string message) { return Error{Code::kInvalidArgument, std::move(message)}; }

}  // namespace

std::string format_time(WallTime time) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::chrono::system_clock::to_time_t(time)));
}

Result<WallTime> parse_time(const std::string& text) {
  std::tm fields{};
  const char* const end = strptime(text.c_str(), "%Y-%m-%dT%H:%M:%SZ", &fields);
  if (end == nullptr || *end != '\0') {
    return invalid_credentials(fmt::format("time: got \"{}\", expected YYYY-MM-DDTHH:MM:SSZ", printable(text, 64)));
  }
  return to_wall_time(fields);
}

Result<CertificateInfo> read_certificate(std::string_view pem) {
  const X509Ptr certificate = parse_certificate(pem);
  if (certificate == nullptr) return invalid_credentials("certificate: " + take_openssl_errors());
  return read_certificate(*certificate);
}

Result<CertificateInfo> check(const Credentials& credentials) {
  const X509Ptr authority = parse_certificate(credentials.authority);
  if (authority == nullptr) return invalid_credentials("authority: no certificate: " + take_openssl_errors());
  const X509Ptr certificate = parse_certificate(credentials.certificate);
  const KeyPtr key = parse_key(credentials.key);
  if (certificate == nullptr || key == nullptr || X509_check_private_key(certificate.get(), key.get()) != 1) {
    return invalid_credentials("expected a certificate and its key: " + take_openssl_errors());
  }
  if (X509_verify(certificate.get(), X509_get0_pubkey(authority.get())) != 1) {
    return invalid_credentials("the certificate is not signed by the authority: " + take_openssl_errors());
  }
  return read_certificate(*certificate);
}

Result<std::string> fingerprint(std::string_view pem) {
  const X509Ptr certificate = parse_certificate(pem);
  if (certificate == nullptr) return invalid_credentials("certificate: " + take_openssl_errors());
  unsigned char* der = nullptr;
  const int size = i2d_X509(certificate.get(), &der);
  TROUPE_CHECK(size > 0, "DER: {}", take_openssl_errors());
  const std::string digest = sha256_hex(std::as_bytes(std::span(der, static_cast<std::size_t>(size))));
  OPENSSL_free(der);
  return digest;
}

NodeRequest make_request() {
  const KeyPtr key = make_key();
  const X509ReqPtr request(X509_REQ_new());
  TROUPE_CHECK(request != nullptr && X509_REQ_set_pubkey(request.get(), key.get()) == 1 &&
                   X509_REQ_sign(request.get(), key.get(), EVP_sha256()) > 0,
               "certificate request: {}", take_openssl_errors());
  return {to_pem(key.get()), to_pem(request.get())};
}

CredentialFiles credential_files(const std::string& folder) {
  return {folder + "/authority.pem", folder + "/node.pem"};
}

Status save_credentials(const Credentials& credentials, const std::string& folder) {
  TROUPE_TRY(make_private_folder(folder));
  const CredentialFiles files = credential_files(folder);
  TROUPE_TRY(write_private_file(files.authority, credentials.authority));
  return write_private_file(files.node, credentials.certificate + credentials.key);
}

Result<Credentials> load_credentials(const std::string& folder, WallTime now) {
  const CredentialFiles files = credential_files(folder);
  close_to_group(folder);
  TROUPE_ASSIGN(std::string authority, read_private_file(files.authority, kCredentialBytesMax, GroupMay::kClose));
  TROUPE_ASSIGN(std::string node, read_private_file(files.node, kCredentialBytesMax, GroupMay::kClose));
  const X509Ptr certificate = parse_certificate(node);
  const KeyPtr key = parse_key(node);
  Credentials credentials{std::move(authority), certificate == nullptr ? "" : to_pem(certificate.get()),
                          key == nullptr ? "" : to_pem(key.get())};
  ERR_clear_error();
  const auto info = check(credentials);
  if (!info.ok()) return invalid_credentials(fmt::format("{}: {}", folder, info.error().message));
  if (now < info->valid_from || now >= info->valid_until) {
    return invalid_credentials(fmt::format("{}: valid from {} until {}, and it is {}: join again", files.node,
                                           format_time(info->valid_from), format_time(info->valid_until),
                                           format_time(now)));
  }
  return credentials;
}

}  // namespace troupe::transport
