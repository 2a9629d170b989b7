#pragma once
// The thread inside of each end of a stream, and how it is woken and ended.
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include <troupe/core/clock.hpp>
#include <troupe/core/error.hpp>
#include <troupe/core/thread_priority.hpp>

namespace troupe::transport {

/// How long a stream with nothing to wait for sleeps; what happens wakes it.
inline constexpr Duration kForever = std::chrono::hours(24);

/// Wakes a thread that polls a file descriptor.
class WakeEvent {
 public:
  WakeEvent() : fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
  ~WakeEvent() {
    if (fd_ >= 0) ::close(fd_);
  }
  WakeEvent(const WakeEvent&) = delete;
  WakeEvent& operator=(const WakeEvent&) = delete;

  int fd() const { return fd_; }  ///< negative: the system has none left
  void set() {
    const std::uint64_t one = 1;
    (void)!::write(fd_, &one, sizeof(one));  // fails only when it is set more than often enough
  }
  void clear() {
    std::uint64_t count = 0;
    (void)!::read(fd_, &count, sizeof(count));
  }

 private:
  const int fd_;
};

/// A thread that may be ended by several others at once, and by what it calls itself.
class StreamThread {
 public:
  /// `name` is what top and gdb show, cut at 15 characters. An urgent thread asks for short slices.
  Status start(const std::string& name, bool urgent, std::function<void(std::stop_token)> body) {
    try {
      thread_ = std::jthread([this, urgent, name = name.substr(0, 15), body = std::move(body)](std::stop_token stop) {
        id_ = std::this_thread::get_id();
        ::pthread_setname_np(::pthread_self(), name.c_str());
        if (urgent) take_short_slices();
        body(std::move(stop));
      });
    } catch (const std::system_error& error) {
      return Error{Code::kUnavailable, std::string("stream: no thread: ") + error.what()};
    }
    return {};
  }
  void request_stop() { thread_.request_stop(); }
  /// Nothing on the thread itself, which ends when it gets back to its loop.
  void join() {
    if (std::this_thread::get_id() == id_) return;
    const std::lock_guard lock(mutex_);
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::mutex mutex_;  // of the join
  std::atomic<std::thread::id> id_;
  std::jthread thread_;
};

}  // namespace troupe::transport
