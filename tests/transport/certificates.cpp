#include <troupe/tests/transport/certificates.hpp>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <troupe/core/check.hpp>
#include <troupe/transport/detail/openssl.hpp>
#include <troupe/transport/frame_header.hpp>

namespace troupe::transport::testing {

Credentials issue_odd(const Authority& authority, const OddCertificate& odd) {
  // The authority's key is only on disk to be had.
  const std::string folder = ::testing::TempDir() + "/troupe_odd_" + std::to_string(getpid());
  authority.save(folder).value();
  std::ifstream file(folder + "/authority.key");
  const KeyPtr issuer_key = parse_key(std::string(std::istreambuf_iterator<char>(file), {}));
  std::filesystem::remove_all(folder);

  const auto now = std::chrono::system_clock::now();
  const Identity any{authority.run(), {"any"}, "any"};
  const KeyPtr key = odd.rsa_bits == 0 ? make_key() : KeyPtr(EVP_RSA_gen(static_cast<std::size_t>(odd.rsa_bits)));
  const X509Ptr certificate = parse_certificate(authority.issue(any, now).value().certificate);
  const int names_at = X509_get_ext_by_NID(certificate.get(), NID_subject_alt_name, -1);
  X509_EXTENSION_free(X509_delete_ext(certificate.get(), names_at));
  if (!odd.names.empty()) {
    const OpenSslPtr<X509_EXTENSION, X509_EXTENSION_free> names(
        X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, odd.names.c_str()));
    TROUPE_CHECK(names != nullptr, "names {}", odd.names);
    X509_add_ext(certificate.get(), names.get(), -1);
  }
  X509_set_pubkey(certificate.get(), key.get());
  TROUPE_CHECK(X509_sign(certificate.get(), issuer_key.get(), EVP_sha256()) > 0, "sign");
  return {authority.certificate(), to_pem(certificate.get()), to_pem(key.get())};
}

void dial_raw(int fd, int max_version, const Credentials* credentials, std::span<const std::byte> bytes) {
  sigset_t pipe;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, nullptr);  // OpenSSL's own writes raise it when the peer has closed
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  const OpenSslPtr<SSL_CTX, SSL_CTX_free> context(SSL_CTX_new(TLS_client_method()));
  SSL_CTX_set_max_proto_version(context.get(), max_version);
  SSL_CTX_set_security_level(context.get(), 0);  // this side may be as weak as the test wants
  if (credentials != nullptr) {
    SSL_CTX_use_certificate(context.get(), parse_certificate(credentials->certificate).get());
    SSL_CTX_use_PrivateKey(context.get(), parse_key(credentials->key).get());
  }
  const OpenSslPtr<SSL, SSL_free> ssl(SSL_new(context.get()));
  SSL_set_fd(ssl.get(), fd);
  char byte;
  if (SSL_connect(ssl.get()) == 1) {
    if (!bytes.empty()) SSL_write(ssl.get(), bytes.data(), static_cast<int>(bytes.size()));
    SSL_read(ssl.get(), &byte, 1);  // the verdict comes with the first read
  }
  close(fd);
}

std::vector<std::byte> raw_welcome() {
  const FrameHeaderBytes header = encode_header({FrameKind::kWelcome, 4, 0}, {}).value();
  std::vector<std::byte> bytes(header.begin(), header.end());
  for (const int byte : {1, 0, 1, 0}) bytes.push_back(static_cast<std::byte>(byte));
  return bytes;
}

}  // namespace troupe::transport::testing
