#pragma once
// A road between two nodes over TCP that can fall asleep, for tests of what silence does.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <map>
#include <thread>
#include <vector>

#include <troupe/transport/dial.hpp>

namespace troupe::transport::testing {

/// Forwards TCP connections, until it is told to forward nothing: to both sides the other one seems to sleep.
class Relay {
 public:
  explicit Relay(Address target) : target_(std::move(target)) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(listener_, generic, size) | listen(listener_, 16) | getsockname(listener_, generic, &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }
  ~Relay() {
    thread_ = {};
    for (const auto& [from, to] : pairs_) close(from);
    close(listener_);
  }
  Address address() const { return {"127.0.0.1", port_}; }
  void sleep(bool asleep) { asleep_ = asleep; }

 private:
  void run(const std::stop_token& stop) {
    std::vector<std::byte> buffer(64 * 1024);
    while (!stop.stop_requested()) {
      if (asleep_) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        continue;
      }
      std::vector<pollfd> entries{{listener_, POLLIN, 0}};
      for (const auto& [from, to] : pairs_) entries.push_back({from, POLLIN, 0});
      if (poll(entries.data(), entries.size(), 20) <= 0) continue;
      for (const pollfd& entry : entries) {
        if (entry.revents == 0 || entry.fd == listener_) continue;
        const auto got = read(entry.fd, buffer.data(), buffer.size());
        if (got > 0 && send(pairs_[entry.fd], buffer.data(), static_cast<std::size_t>(got), MSG_NOSIGNAL) == got)
          continue;
        const int other = pairs_[entry.fd];  // one side has closed
        close(entry.fd);
        close(other);
        pairs_.erase(entry.fd);
        pairs_.erase(other);
        break;
      }
      if (entries[0].revents == 0) continue;
      const int near = accept(listener_, nullptr, nullptr);
      const auto far = dial(target_, std::chrono::seconds(1));
      if (!far.ok()) {
        close(near);
        continue;
      }
      pairs_[near] = *far;
      pairs_[*far] = near;
    }
  }

  const Address target_;
  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::atomic<bool> asleep_ = false;
  std::map<int, int> pairs_;
  std::jthread thread_;
};

}  // namespace troupe::transport::testing
