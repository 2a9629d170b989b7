#pragma once
// 64 MiB frames from one node to another over a link, as fast as they go: what control must not wait for.
#include <atomic>
#include <cstdint>
#include <memory>
#include <semaphore>
#include <thread>
#include <vector>

#include <troupe/bench/transport/streams.hpp>

namespace troupe::transport {

inline constexpr std::size_t kFrameBytes = 64 << 20;
inline constexpr std::int64_t kFramesUnderWay = 4;

/// Sends frames until it is destroyed.
class Bulk {
 public:
  explicit Bulk(const LoopbackNodes& nodes)
      : stream_(nodes, Lane::kBulk, [this](const StreamMessage&) { credits_.release(); }),
        sending_([this](std::stop_token stop) {
          const auto body = std::make_shared<std::vector<std::byte>>(kFrameBytes, std::byte{1});
          while (!stop.stop_requested()) {
            credits_.acquire();
            stream_.sender().send({.body = *body, .owner = body}).value();
            ++frames_;
          }
        }) {}
  std::int64_t frames() const { return frames_; }

 private:
  std::counting_semaphore<> credits_{kFramesUnderWay};
  std::atomic<std::int64_t> frames_ = 0;
  BenchStream stream_;
  std::jthread sending_;
};

}  // namespace troupe::transport
