// The rival of link_bench.cpp: what TLS 1.3 itself costs. OpenSSL in its plainest form, with blocking sockets, mutual
// certificates and the cipher that links use; one thread writes a 16-byte header and the payload, another reads both
// into one buffer that it has touched before. No limits, no deadlines, no acknowledgements, no buffer for each frame.
#include <benchmark/benchmark.h>
#include <openssl/opensslv.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <array>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include <troupe/bench/transport/loopback.hpp>
#include <troupe/core/clock.hpp>

namespace troupe::transport {
namespace {

// As in link_bench.cpp.
constexpr std::int64_t kBytes = std::int64_t{1} << 30;
constexpr std::int64_t kSmallMessages = 400'000;
constexpr std::int64_t kWarmUpShare = 4;

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
                     SSL_CTX_set_ciphersuites(context, "TLS_AES_256_GCM_SHA384") == 1 &&
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

/// Carries `count` payloads of `bytes`; returns how long it took.
Duration carry(benchmark::State& state, std::int64_t bytes, std::int64_t count) {
  const LoopbackNodes nodes;
  const auto connection = loopback_connection();
  const std::int64_t warm_up = count / kWarmUpShare;
  std::jthread receiving([&] {
    End end(connection[1], nodes.right_credentials);
    end.accept();
    std::array<std::byte, 16> header{};
    std::vector<std::byte> buffer(bytes);
    for (std::int64_t i = 0; i < warm_up + count; ++i) {
      end.read(header);
      end.read(buffer);
      if (i + 1 == warm_up || i + 1 == warm_up + count) end.write(header);
    }
  });
  End end(connection[0], nodes.left_credentials);
  end.dial();
  std::array<std::byte, 16> header{};
  const std::vector<std::byte> payload(bytes, std::byte{1});
  const auto run = [&](std::int64_t messages) {
    const SteadyClock clock;
    const Duration begin = clock.now();
    for (std::int64_t i = 0; i < messages; ++i) {
      end.write(header);
      end.write(payload);
    }
    end.read(header);
    return clock.now() - begin;
  };
  run(warm_up);
  Duration took{};
  for (auto _ : state) {
    took = run(count);
    state.SetIterationTime(seconds(took));
  }
  return took;
}

void frames(benchmark::State& state, std::int64_t bytes) {
  const Duration cpu = process_cpu();
  state.counters["value"] = static_cast<double>(kBytes) / 1e6 / seconds(carry(state, bytes, kBytes / bytes));
  const double gigabytes = static_cast<double>(kBytes + kBytes / kWarmUpShare) / 1e9;
  state.counters["cpu_s_per_gb"] = seconds(process_cpu() - cpu) / gigabytes;
  state.SetLabel("MB/s");
}

void small_message(benchmark::State& state) {
  state.counters["value"] = static_cast<double>(kSmallMessages) / seconds(carry(state, 64, kSmallMessages));
  state.SetLabel("messages/s");
}
void frame_64_kib(benchmark::State& state) { frames(state, 64 << 10); }
void frame_1_mib(benchmark::State& state) { frames(state, 1 << 20); }
void frame_16_mib(benchmark::State& state) { frames(state, 16 << 20); }
void frame_64_mib(benchmark::State& state) { frames(state, 64 << 20); }
BENCHMARK(small_message)->UseManualTime()->Iterations(1);
BENCHMARK(frame_64_kib)->UseManualTime()->Iterations(1);
BENCHMARK(frame_1_mib)->UseManualTime()->Iterations(1);
BENCHMARK(frame_16_mib)->UseManualTime()->Iterations(1);
BENCHMARK(frame_64_mib)->UseManualTime()->Iterations(1);

}  // namespace
}  // namespace troupe::transport

int main(int argc, char** argv) {
  benchmark::AddCustomContext("version", OPENSSL_VERSION_STR);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
