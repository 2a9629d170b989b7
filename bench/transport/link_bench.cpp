// Messages over a stream from a node on one host to a node on another: encryption, copies, system calls and
// acknowledgements, each frame delivered in a buffer of its own. They are queued all at once, by reference to the same
// bytes, so their making does not count. A small message is a head of 64 bytes without a body.
#include <memory>
#include <semaphore>
#include <vector>

#include <troupe/bench/transport/link_rows.hpp>
#include <troupe/transport/link.hpp>
#include <troupe/transport/stream.hpp>

namespace troupe::transport {
namespace {

constexpr Duration kTimeout = std::chrono::seconds(5);

void receive(const HostNodes& nodes, const FarHost& host, std::int64_t all, const std::function<void()>& arrived) {
  std::binary_semaphore done(0);
  std::int64_t left = all;
  auto on_message = [&](const StreamMessage&) {
    arrived();
    if (--left == 0) done.release();
  };
  const auto receiver =
      StreamReceiver::make({.peer = nodes.near.node, .pool = std::make_shared<ReceivePool>(), .on_message = on_message})
          .value();
  auto link = Link::open(host.accept_one(), nodes.far_credentials, {.side = Side::kAccept, .admit = only(nodes.near)});
  auto hello = receive_hello(*link.value(), kTimeout).value();
  receiver->attach(std::move(link).value(), std::move(hello));
  done.acquire();
  pause();  // what is not acknowledged yet is acknowledged
}

LinkSide::Send connect(const HostNodes& nodes, const FarHost& far, std::int64_t bytes) {
  const auto dial = [&nodes, socket = far.dial()](const std::stop_token&) {
    return Link::open(socket, nodes.near_credentials, {.side = Side::kDial, .admit = only(nodes.far)});
  };
  StreamSenderOptions options{.name = "bench", .connect = dial};
  options.max_messages = 1 << 20;
  options.max_bytes = std::size_t{4} << 30;
  const std::shared_ptr<StreamSender> sender = StreamSender::make(std::move(options)).value();
  const auto body = std::make_shared<std::vector<std::byte>>(bytes, std::byte{1});
  return [=](std::int64_t messages) {
    for (std::int64_t i = 0; i < messages; ++i) sender->send({.body = *body, .owner = body}).value();
  };
}

}  // namespace
}  // namespace troupe::transport

int main(int argc, char** argv) {
  using namespace troupe::transport;
  const HostNodes nodes;
  return link_bench_main(
      argc, argv,
      {.small_bytes = 0,
       .receive = [&](const FarHost& host, std::int64_t, std::int64_t all,
                      const std::function<void()>& arrived) { receive(nodes, host, all, arrived); },
       .connect = [&](const FarHost& far, std::int64_t bytes) { return connect(nodes, far, bytes); }});
}
