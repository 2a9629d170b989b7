#pragma once
// A stream between the two nodes of loopback.hpp, for benches.
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include <troupe/bench/transport/loopback.hpp>
#include <troupe/transport/stream.hpp>

namespace troupe::transport {

enum class Lane { kBulk, kUrgent };

/// Both ends of one stream. One connection is enough: on loopback it does not break.
class BenchStream {
 public:
  BenchStream(const LoopbackNodes& nodes, Lane lane, std::function<void(StreamMessage)> on_message) {
    const bool urgent = lane == Lane::kUrgent;
    receiver_ =
        StreamReceiver::make(
            {.peer = "left", .urgent = urgent, .pool = std::make_shared<ReceivePool>(), .on_message = on_message})
            .value();
    const auto connection = loopback_connection();
    std::jthread accepting([&] {
      auto link =
          Link::open(connection[1], nodes.right_credentials, {.side = Side::kAccept, .admit = only(nodes.left)});
      auto hello = receive_hello(*link.value(), std::chrono::seconds(5)).value();
      receiver_->attach(std::move(link).value(), std::move(hello));
    });
    const auto dial = [&nodes, fd = connection[0]](const std::stop_token&) {
      return Link::open(fd, nodes.left_credentials, {.side = Side::kDial, .admit = only(nodes.right)});
    };
    StreamSenderOptions options{.name = "bench", .urgent = urgent, .connect = dial};
    options.max_messages = 1 << 20;
    options.max_bytes = std::size_t{4} << 30;
    sender_ = StreamSender::make(std::move(options)).value();
  }

  StreamSender& sender() { return *sender_; }

 private:
  std::unique_ptr<StreamReceiver> receiver_;
  std::unique_ptr<StreamSender> sender_;
};

}  // namespace troupe::transport
