#pragma once
// Both ends of a stream and a road between them that cuts, freezes and comes back, for the tests of streams. Links are
// real ones over socket pairs.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <troupe/tests/transport/eventually.hpp>
#include <troupe/transport/authority.hpp>
#include <troupe/transport/stream.hpp>
#include <troupe/transport/stream_acceptor.hpp>

namespace troupe::transport::testing {

using namespace std::chrono_literals;
using troupe::testing::eventually;

inline const Identity kSender{"run-1", {"actor"}, "node-0"};
inline const Identity kReceiver{"run-1", {"replay"}, "node-1"};
inline constexpr auto kPatience = 60s;  // of every wait that must succeed

inline std::uint64_t number_of(const StreamMessage& message) {
  std::uint64_t number;
  std::memcpy(&number, message.head.data(), sizeof(number));
  return number;
}

inline std::byte pattern(std::uint64_t number, std::size_t at) { return static_cast<std::byte>(number * 7 + at * 31); }

/// Message `number`, whose body depends on it.
inline StreamMessage make_message(std::uint64_t number, std::size_t bytes = 0) {
  StreamMessage message;
  std::memcpy(message.head.data(), &number, sizeof(number));
  if (bytes == 0) return message;
  auto body = std::make_shared<std::vector<std::byte>>(bytes);
  for (std::size_t i = 0; i < bytes; ++i) (*body)[i] = pattern(number, i);
  message.body = *body;
  message.owner = std::move(body);
  return message;
}

/// The same message, whose bytes from `begin` on are lent.
inline StreamMessage lend_from(std::size_t begin, StreamMessage message) {
  message.lent = std::make_shared<LentBytes>(message.body.subspan(begin));
  message.body = message.body.first(begin);
  return message;
}

/// What arrived: expects 1, 2, 3, ... with the bodies of make_message().
class Ledger {
 public:
  void take(const StreamMessage& message) {
    const std::lock_guard lock(mutex_);
    const std::uint64_t number = number_of(message);
    if (number != last_ + 1) wrong_ += "got " + std::to_string(number) + " after " + std::to_string(last_) + "; ";
    if (reinterpret_cast<std::uintptr_t>(message.body.data()) % 64 != 0) wrong_ += "not aligned; ";
    for (std::size_t i = 0; i < message.body.size(); ++i) {
      if (message.body[i] == pattern(number, i)) continue;
      wrong_ += "message " + std::to_string(number) + " differs at byte " + std::to_string(i) + "; ";
      break;
    }
    last_ = number;
  }
  std::uint64_t last() const {
    const std::lock_guard lock(mutex_);
    return last_;
  }
  void expect_from(std::uint64_t first) {
    const std::lock_guard lock(mutex_);
    last_ = first - 1;
  }
  std::string wrong() const {
    const std::lock_guard lock(mutex_);
    return wrong_;
  }

 private:
  mutable std::mutex mutex_;
  std::uint64_t last_ = 0;
  std::string wrong_;
};

struct Sockets {
  Sockets() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0); }
  int fds[2];
};

/// What the relay does with a connection after so many bytes, of both directions together.
struct Fate {
  std::size_t bytes = SIZE_MAX;
  bool freeze = false;  ///< stops to forward, instead of closing both ends
};

/// Forwards bytes between two sockets, which it owns, until its fate.
inline void relay(std::stop_token stop, int left, int right, Fate fate) {
  const std::stop_callback wake(stop, [&] {
    shutdown(left, SHUT_RDWR);
    shutdown(right, SHUT_RDWR);
  });
  std::vector<std::byte> buffer(64 * 1024);
  pollfd entries[] = {{left, POLLIN, 0}, {right, POLLIN, 0}};
  bool open = true;
  while (open && fate.bytes > 0 && poll(entries, 2, 60'000) > 0) {
    for (int i = 0; i < 2 && open && fate.bytes > 0; ++i) {
      if (entries[i].revents == 0) continue;
      const ssize_t got = read(entries[i].fd, buffer.data(), std::min(buffer.size(), fate.bytes));
      open = got > 0 && send(entries[1 - i].fd, buffer.data(), static_cast<std::size_t>(got), MSG_NOSIGNAL) == got;
      fate.bytes -= static_cast<std::size_t>(std::max<ssize_t>(got, 0));
    }
  }
  while (open && fate.freeze && !stop.stop_requested()) std::this_thread::sleep_for(1ms);
  close(left);
  close(right);
}

/// A road between two nodes: connect() is a sender's way to dial; on the other side links are accepted and attached to
/// the receiver that is there at the time.
class StreamTest : public ::testing::Test {
 protected:
  /// Both ends must be gone before the road.
  ~StreamTest() override { drop_ends(); }
  void drop_ends() {
    sender_.reset();
    drop_receiver();
  }
  /// Declared after what the callbacks of a test refer to.
  struct EndsFirst {
    StreamTest* test;
    ~EndsFirst() { test->drop_ends(); }
  };

  Result<std::unique_ptr<Link>> connect(std::stop_token stop) {
    const Sockets near;
    int accepted = near.fds[1];
    {
      const std::lock_guard lock(mutex_);
      if (!fates_.empty()) {
        const Sockets far;
        threads_.emplace_back([left = near.fds[1], right = far.fds[0], fate = fates_.front()](std::stop_token token) {
          relay(std::move(token), left, right, fate);
        });
        fates_.pop_front();
        accepted = far.fds[1];
      }
      threads_.emplace_back([this, accepted](const std::stop_token& token) { accept(accepted, token); });
    }
    return Link::open(near.fds[0], dialler_, {.side = Side::kDial, .admit = only(kReceiver), .stop = std::move(stop)});
  }

  void accept(int socket, const std::stop_token& stop) {
    auto link =
        Link::open(socket, acceptor_, {.side = Side::kAccept, .admit = only(kSender), .limits = limits_, .stop = stop});
    if (link.ok()) greeter_->take(std::move(*link));
  }
  void attach(std::unique_ptr<Link> link, StreamHello hello) {
    const std::lock_guard lock(mutex_);
    if (receiver_ != nullptr) receiver_->attach(std::move(link), std::move(hello));
  }

  StreamSenderOptions sender_options() {
    return {.name = "bulk",
            .connect = [this](std::stop_token stop) { return connect(std::move(stop)); },
            .retry_least = 1ms,
            .retry_most = 20ms,
            .seed = 1};
  }
  void make_sender() { make_sender(sender_options()); }
  void make_sender(StreamSenderOptions options) {
    sender_.reset();
    sender_ = StreamSender::make(std::move(options)).value();
  }

  StreamReceiverOptions receiver_options() {
    return {
        .peer = "node-0", .pool = pool_, .on_message = [this](const StreamMessage& message) { ledger_.take(message); }};
  }
  void make_receiver() { make_receiver(receiver_options()); }
  void make_receiver(StreamReceiverOptions options) {
    drop_receiver();
    auto made = StreamReceiver::make(std::move(options)).value();
    const std::lock_guard lock(mutex_);
    receiver_ = std::move(made);
  }
  void drop_receiver() {
    std::unique_ptr<StreamReceiver> old;
    const std::lock_guard lock(mutex_);
    old = std::move(receiver_);
  }

  void fate(Fate next) {
    const std::lock_guard lock(mutex_);
    fates_.push_back(next);
  }
  std::size_t fates_left() {
    const std::lock_guard lock(mutex_);
    return fates_.size();
  }

  /// Tries again while the sender is at its bound.
  void send(const StreamMessage& message) {
    ASSERT_TRUE(eventually([&] { return sender_->send(message).ok(); }, kPatience));
  }
  bool arrived(std::uint64_t last) {
    return eventually([&] { return ledger_.last() == last || !ledger_.wrong().empty(); }, kPatience) &&
           ledger_.wrong().empty();
  }

  const WallTime now_ = std::chrono::system_clock::now();
  const Authority authority_ = Authority::create("run-1", now_).value();
  const Credentials dialler_ = authority_.issue(kSender, now_).value();
  const Credentials acceptor_ = authority_.issue(kReceiver, now_).value();
  const std::shared_ptr<ReceivePool> pool_ = std::make_shared<ReceivePool>();
  FrameLimits limits_;
  Ledger ledger_;

  std::mutex mutex_;  // of the road
  std::deque<Fate> fates_;
  std::unique_ptr<StreamReceiver> receiver_;
  std::unique_ptr<StreamSender> sender_;
  std::unique_ptr<StreamAcceptor> greeter_ =
      StreamAcceptor::make({.on_hello = [this](std::unique_ptr<Link> link, StreamHello hello) {
        attach(std::move(link), std::move(hello));
      }}).value();
  std::vector<std::jthread> threads_;  // joined first
};

}  // namespace troupe::transport::testing
