#include <troupe/page/connections.hpp>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include <troupe/core/check.hpp>

namespace troupe::page {
namespace {

constexpr Duration kHeadDeadline = std::chrono::seconds(5);
/// A head of which a part has come is looked at again after so long.
constexpr int kLookAgainMs = 20;

}  // namespace

Connections::Connections(std::function<void(int socket)> answer) : answer_(std::move(answer)) {
  TROUPE_CHECK(pipe2(wake_, O_CLOEXEC | O_NONBLOCK) == 0, "pipe: errno {}", errno);
  threads_.emplace_back([this] { keep_the_door(); });
  for (std::size_t i = 0; i < kWorkers; ++i) threads_.emplace_back([this] { work(); });
}

Connections::~Connections() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  (void)!write(wake_[1], "x", 1);
  for (std::thread& thread : threads_) thread.join();
  for (const int socket : taken_) close(socket);
  for (const int socket : ready_) close(socket);
  close(wake_[0]);
  close(wake_[1]);
}

void Connections::take(int socket) {
  {
    const std::lock_guard lock(mutex_);
    taken_.push_back(socket);
    if (taken_.size() > kWaitingMax) {
      close(taken_.front());
      taken_.pop_front();
    }
  }
  (void)!write(wake_[1], "x", 1);  // a full pipe wakes as well
}

void Connections::keep_the_door() {
  std::vector<Waiting> waiting;
  std::vector<pollfd> polled;
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (ends_) break;
      for (; !taken_.empty(); taken_.pop_front()) waiting.push_back({taken_.front(), clock_.now()});
    }
    while (waiting.size() > kWaitingMax) {
      close(waiting.front().socket);
      waiting.erase(waiting.begin());
    }
    look(waiting);
    // Those of whom a part has come would make poll() return at once.
    polled.assign(1, {wake_[0], POLLIN, 0});
    bool partial = false;
    for (const Waiting& one : waiting) {
      partial = partial || one.looked_at > 0;
      if (one.looked_at == 0) polled.push_back({one.socket, POLLIN, 0});
    }
    poll(polled.data(), polled.size(), partial ? kLookAgainMs : waiting.empty() ? -1 : 500);
    std::array<char, 256> drained;
    while (read(wake_[0], drained.data(), drained.size()) > 0) {
    }
  }
  for (const Waiting& one : waiting) close(one.socket);
}

void Connections::look(std::vector<Waiting>& waiting) {
  const Duration now = clock_.now();
  std::erase_if(waiting, [&](Waiting& one) {
    const Head head = head_of(one);
    if (head == Head::kWhole) {
      const std::lock_guard lock(mutex_);
      if (ready_.size() < kReadyMax) {
        ready_.push_back(one.socket);
        changed_.notify_one();
        return true;
      }
    }
    const bool goes = head != Head::kPartial || now - one.since > kHeadDeadline;
    if (goes) close(one.socket);
    return goes;
  });
}

Connections::Head Connections::head_of(Waiting& one) {
  std::array<char, kHeadBytesMax> bytes;
  const ssize_t count = recv(one.socket, bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT);
  if (count < 0) return errno == EAGAIN || errno == EINTR ? Head::kPartial : Head::kBad;
  if (count == 0) return Head::kBad;
  const std::string_view text(bytes.data(), static_cast<std::size_t>(count));
  if (text.find("\r\n\r\n") != std::string_view::npos) return Head::kWhole;
  one.looked_at = text.size();
  return text.size() == bytes.size() ? Head::kBad : Head::kPartial;
}

void Connections::work() {
  while (true) {
    int socket = -1;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return ends_ || !ready_.empty(); });
      if (ends_) return;
      socket = ready_.front();
      ready_.pop_front();
    }
    answer_(socket);
    shutdown(socket, SHUT_WR);
    // What was sent and not read, a body say, would make the close a reset, which can take the answer away.
    std::array<char, kHeadBytesMax> unread;
    for (int i = 0; i < 4 && recv(socket, unread.data(), unread.size(), MSG_DONTWAIT) > 0; ++i) {
    }
    close(socket);
  }
}

}  // namespace troupe::page
