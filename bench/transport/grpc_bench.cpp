// gRPC as a rival of link_bench.cpp: one client-streaming call over TLS 1.3 with certificates on both sides. At its
// best: messages are bytes without Protocol Buffers, handed over by reference; large HTTP/2 frames; nothing is copied
// out of what has come.
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/method_handler.h>
#include <grpcpp/impl/codegen/service_type.h>
#include <grpcpp/impl/codegen/sync_stream.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <memory>
#include <string>
#include <vector>

#include <troupe/bench/transport/link_rows.hpp>

namespace troupe::transport {
namespace {

constexpr const char* kMethod = "/bench.Frames/Carry";
constexpr int kHttp2FrameBytes = 256 << 10;
constexpr int kReadAheadBytes = 8 << 20;

using grpc::ByteBuffer;

class Frames final : public grpc::Service {
 public:
  explicit Frames(std::function<void()> arrived) : arrived_(std::move(arrived)) {
    auto take = [](Frames* self, grpc::ServerContext*, grpc::ServerReader<ByteBuffer>* reader, ByteBuffer*) {
      ByteBuffer message;
      while (reader->Read(&message)) self->arrived_();
      return grpc::Status::OK;
    };
    AddMethod(new grpc::internal::RpcServiceMethod(
        kMethod, grpc::internal::RpcMethod::CLIENT_STREAMING,
        new grpc::internal::ClientStreamingHandler<Frames, ByteBuffer, ByteBuffer>(take, this)));
  }

 private:
  std::function<void()> arrived_;
};

std::shared_ptr<grpc::experimental::CertificateProviderInterface> certificates(const Credentials& credentials) {
  return std::make_shared<grpc::experimental::StaticDataCertificateProvider>(
      credentials.authority,
      std::vector<grpc::experimental::IdentityKeyCertPair>{{credentials.key, credentials.certificate}});
}

void receive(const HostNodes& nodes, const FarHost& host, const std::function<void()>& arrived) {
  Frames frames(arrived);
  grpc::experimental::TlsServerCredentialsOptions security(certificates(nodes.far_credentials));
  security.watch_root_certs();
  security.watch_identity_key_cert_pairs();
  security.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(-1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kHttp2FrameBytes);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kReadAheadBytes);
  builder.AddListeningPort(host.address() + ":" + std::to_string(FarHost::kPort),
                           grpc::experimental::TlsServerCredentials(security));
  builder.RegisterService(&frames);
  const auto server = builder.BuildAndStart();
  TROUPE_CHECK(server != nullptr, "gRPC does not listen");
  host.say();
  server->Wait();
}

/// One call, which stays open.
struct Call {
  Call(const HostNodes& nodes, const FarHost& far, std::int64_t bytes)
      : slice(std::string(static_cast<std::size_t>(bytes), '\1')), message(&slice, 1) {
    grpc::experimental::TlsChannelCredentialsOptions security;
    security.set_certificate_provider(certificates(nodes.near_credentials));
    security.watch_root_certs();
    security.watch_identity_key_cert_pairs();
    // The chain is checked; the name is not, as certificates here hold a URI and no host.
    security.set_certificate_verifier(std::make_shared<grpc::experimental::NoOpCertificateVerifier>());
    security.set_check_call_host(false);
    grpc::ChannelArguments arguments;
    arguments.SetMaxSendMessageSize(-1);
    arguments.SetInt(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kHttp2FrameBytes);
    arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kReadAheadBytes);
    channel = grpc::CreateCustomChannel(far.address() + ":" + std::to_string(FarHost::kPort),
                                        grpc::experimental::TlsCredentials(security), arguments);
    const grpc::internal::RpcMethod method(kMethod, grpc::internal::RpcMethod::CLIENT_STREAMING);
    writer.reset(grpc::internal::ClientWriterFactory<ByteBuffer>::Create(channel.get(), method, &context, &answer));
  }
  void send(std::int64_t messages) {
    for (std::int64_t i = 0; i < messages; ++i) TROUPE_CHECK(writer->Write(message), "gRPC: {}", "the call has ended");
  }

  const grpc::Slice slice;
  const ByteBuffer message;
  grpc::ClientContext context;
  ByteBuffer answer;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<grpc::ClientWriter<ByteBuffer>> writer;
};

LinkSide::Send connect(const HostNodes& nodes, const FarHost& far, std::int64_t bytes) {
  far.await();
  const auto call = std::make_shared<Call>(nodes, far, bytes);
  return [call](std::int64_t messages) { call->send(messages); };
}

}  // namespace
}  // namespace troupe::transport

int main(int argc, char** argv) {
  using namespace troupe::transport;
  const HostNodes nodes;
  return link_bench_main(
      argc, argv,
      {.version = grpc::Version(),
       .small_messages = false,
       .receive = [&](const FarHost& host, std::int64_t, std::int64_t,
                      const std::function<void()>& arrived) { receive(nodes, host, arrived); },
       .connect = [&](const FarHost& far, std::int64_t bytes) { return connect(nodes, far, bytes); }});
}
