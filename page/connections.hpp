#pragma once
// The connections of the page's server, all of them bounded: in number, in what they may say, in the time that they may
// take. Between the listener of cpp-httplib, which accepts, and its handlers, which answer requests; by itself that
// library gives each connection a thread until it has said something, and takes any number of headers.
//
//   accepted -> waits until its request's head is whole -> a worker answers it -> closed
//
// At the bounds: of more than 256 that wait the oldest goes; a head of more than 16 KiB, or one that is not whole after
// five seconds, is the end of its connection; of more than 64 whole ones the newest goes; and whoever takes longer than
// five seconds to read what is sent is dropped. So connections that say nothing hold up nobody who does, however many
// they are.
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include <troupe/core/clock.hpp>

namespace troupe::page {

class Connections {
 public:
  static constexpr std::size_t kWaitingMax = 256, kReadyMax = 64, kWorkers = 16;
  static constexpr std::size_t kHeadBytesMax = 16 << 10;

  /// answer: handles the one request of a connection, on any worker's thread; it does not close.
  explicit Connections(std::function<void(int socket)> answer);
  /// Closes all; waits for the answers that are under way.
  ~Connections();
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  /// Takes the socket over, on any thread.
  void take(int socket);

 private:
  struct Waiting {
    int socket = -1;
    Duration since{};
    std::size_t looked_at = 0;  ///< bytes of its head when it was last looked at
  };
  enum class Head { kPartial, kWhole, kBad };

  void keep_the_door();
  void look(std::vector<Waiting>& waiting);
  static Head head_of(Waiting& one);
  void work();

  std::function<void(int socket)> answer_;
  SteadyClock clock_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<int> taken_, ready_;
  bool ends_ = false;
  int wake_[2] = {-1, -1};  ///< a pipe: somebody was taken
  std::vector<std::thread> threads_;
};

}  // namespace troupe::page
