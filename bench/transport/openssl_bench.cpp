// The rival of link_bench.cpp: what TLS 1.3 itself costs. OpenSSL in its plainest form, with blocking sockets, mutual
// certificates and the cipher that links use; one host writes a 16-byte header and the payload, the other reads both
// into one buffer that it has touched before. No limits, no deadlines, no acknowledgements, no buffer for each frame.
#include <openssl/opensslv.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <array>
#include <memory>
#include <span>
#include <vector>

#include <troupe/bench/transport/link_rows.hpp>

namespace troupe::transport {
namespace {

struct Free {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};

/// One end of a TLS connection.
class End {
 public:
  End(int fd, const Credentials& credentials) : fd_(fd), context_(SSL_CTX_new(TLS_method())) {
    BIO* bio = BIO_new_mem_buf(credentials.certificate.data(), -1);
    X509* certificate = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr);
    BIO_free(bio);
    bio = BIO_new_mem_buf(credentials.key.data(), -1);
    EVP_PKEY* key = PEM_read_bio_PrivateKey(bio, nullptr, nullptr, nullptr);
    BIO_free(bio);
    bio = BIO_new_mem_buf(credentials.authority.data(), -1);
    X509* authority = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr);
    BIO_free(bio);
    SSL_CTX* const context = context_.get();
    TROUPE_CHECK(SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
                     SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") == 1 &&
                     SSL_CTX_use_certificate(context, certificate) == 1 && SSL_CTX_use_PrivateKey(context, key) == 1 &&
                     X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority) == 1,
                 "TLS set-up");
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    X509_free(certificate);
    X509_free(authority);
    EVP_PKEY_free(key);
    ssl_.reset(SSL_new(context));
    SSL_set_fd(ssl_.get(), fd_);
  }
  ~End() {
    ssl_.reset();
    close(fd_);
  }
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  void dial() { TROUPE_CHECK(SSL_connect(ssl_.get()) == 1, "connect"); }
  void accept() { TROUPE_CHECK(SSL_accept(ssl_.get()) == 1, "accept"); }
  void write(std::span<const std::byte> bytes) {
    std::size_t written = 0;
    TROUPE_CHECK(SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &written) == 1, "write");
  }
  void read(std::span<std::byte> bytes) {
    while (!bytes.empty()) {
      std::size_t got = 0;
      TROUPE_CHECK(SSL_read_ex(ssl_.get(), bytes.data(), bytes.size(), &got) == 1, "read");
      bytes = bytes.subspan(got);
    }
  }

 private:
  const int fd_;
  std::unique_ptr<SSL_CTX, Free> context_;
  std::unique_ptr<SSL, Free> ssl_;
};

void receive(const HostNodes& nodes, const FarHost& host, std::int64_t bytes, std::int64_t all,
             const std::function<void()>& arrived) {
  End end(host.accept_one(), nodes.far_credentials);
  end.accept();
  std::array<std::byte, 16> header{};
  std::vector<std::byte> buffer(bytes);
  for (std::int64_t i = 0; i < all; ++i) {
    end.read(header);
    end.read(buffer);
    arrived();
  }
  pause();  // the connection goes with the near host's end
}

LinkSide::Send connect(const HostNodes& nodes, const FarHost& far, std::int64_t bytes) {
  const auto end = std::make_shared<End>(far.dial(), nodes.near_credentials);
  end->dial();
  return [end, header = std::array<std::byte, 16>{},
          payload = std::vector<std::byte>(bytes, std::byte{1})](std::int64_t messages) {
    for (std::int64_t i = 0; i < messages; ++i) {
      end->write(header);
      end->write(payload);
    }
  };
}

}  // namespace
}  // namespace troupe::transport

int main(int argc, char** argv) {
  using namespace troupe::transport;
  const HostNodes nodes;
  return link_bench_main(
      argc, argv,
      {.version = OPENSSL_VERSION_STR,
       .receive = [&](const FarHost& host, std::int64_t bytes, std::int64_t all,
                      const std::function<void()>& arrived) { receive(nodes, host, bytes, all, arrived); },
       .connect = [&](const FarHost& far, std::int64_t bytes) { return connect(nodes, far, bytes); }});
}
