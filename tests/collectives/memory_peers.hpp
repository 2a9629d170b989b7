#pragma once
// Peers between threads of a test: queues, one delivering thread a member, and faults on demand. A member that is
// silenced is a process that was killed: what it sends and what is sent to it is lost. One that is stopped (SIGSTOP)
// gets its messages when it goes on.
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <troupe/collectives/peers.hpp>
#include <troupe/core/clock.hpp>

namespace troupe::collectives {

class MemoryNetwork {
 public:
  /// The end of member `id`; replaces one that had this id before. The network must outlive it.
  std::unique_ptr<Peers> join(std::uint32_t id);

  void silence(std::uint32_t id) {
    const std::lock_guard lock(mutex_);
    silent_.insert(id);
  }
  void cut(std::uint32_t a, std::uint32_t b) {
    const std::lock_guard lock(mutex_);
    cuts_.insert({a, b});
    cuts_.insert({b, a});
  }
  void stop(std::uint32_t id, bool stopped = true);
  /// How long each message to `id` is under way.
  void delay(std::uint32_t id, Duration by) {
    const std::lock_guard lock(mutex_);
    delays_[id] = by;
  }
  /// send() to `id` gives kUnavailable for this many messages.
  void refuse(std::uint32_t id, int messages) {
    const std::lock_guard lock(mutex_);
    refusals_[id] = messages;
  }
  std::size_t messages() const {
    const std::lock_guard lock(mutex_);
    return messages_;
  }
  /// Of bodies and heads.
  std::size_t bytes() const {
    const std::lock_guard lock(mutex_);
    return bytes_;
  }

 private:
  class End;
  using Time = std::chrono::steady_clock::time_point;

  Status send(std::uint32_t from, std::uint32_t to, std::span<const std::byte> head, std::span<const std::byte> body,
              std::shared_ptr<const LentBytes> lent);

  mutable std::mutex mutex_;
  std::map<std::uint32_t, End*> ends_;
  std::set<std::uint32_t> silent_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> cuts_;
  std::map<std::uint32_t, Duration> delays_;
  std::map<std::uint32_t, int> refusals_;
  std::size_t messages_ = 0;
  std::size_t bytes_ = 0;
};

class MemoryNetwork::End final : public Peers {
 public:
  End(MemoryNetwork& network, std::uint32_t id) : network_(network), id_(id), thread_([this] { run(); }) {}
  ~End() override {
    {
      const std::lock_guard lock(network_.mutex_);
      if (network_.ends_[id_] == this) network_.ends_.erase(id_);
    }
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  Status send(std::uint32_t member, std::span<const std::byte> head, std::span<const std::byte> body) override {
    return network_.send(id_, member, head, body, nullptr);
  }
  Status lend(std::uint32_t member, std::span<const std::byte> head, std::shared_ptr<const LentBytes> body) override {
    return network_.send(id_, member, head, {}, std::move(body));
  }
  void deliver_to(std::function<void(PeerMessage)> receiver) override {
    std::unique_lock lock(mutex_);
    receiver_ = std::move(receiver);
    changed_.notify_all();
    changed_.wait(lock, [&] { return !delivering_; });
  }

  void put(std::uint32_t from, std::shared_ptr<std::vector<std::byte>> bytes, std::shared_ptr<const LentBytes> lent,
           Duration delay) {
    const std::lock_guard lock(mutex_);
    queue_.push_back({std::chrono::steady_clock::now() + delay, from, std::move(bytes), std::move(lent)});
    changed_.notify_all();
  }
  void stop(bool stopped) {
    const std::lock_guard lock(mutex_);
    stopped_ = stopped;
    changed_.notify_all();
  }

 private:
  struct Queued {
    Time due;
    std::uint32_t from = 0;
    std::shared_ptr<std::vector<std::byte>> bytes;
    std::shared_ptr<const LentBytes> lent;
  };

  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return ended_ || (!queue_.empty() && receiver_ && !stopped_); });
      if (ended_) return;
      const Time due = queue_.front().due;
      if (std::chrono::steady_clock::now() < due) {
        changed_.wait_until(lock, due);
        continue;
      }
      Queued queued = std::move(queue_.front());
      queue_.pop_front();
      const auto receiver = receiver_;
      delivering_ = true;
      lock.unlock();
      if (queued.lent) {  // as late as can be
        queued.lent->with([&](std::span<const std::byte> lent) {
          queued.bytes->insert(queued.bytes->end(), lent.begin(), lent.end());
        });
        queued.lent.reset();
      }
      receiver({queued.from, *queued.bytes, queued.bytes});
      lock.lock();
      delivering_ = false;
      changed_.notify_all();
    }
  }

  MemoryNetwork& network_;
  const std::uint32_t id_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Queued> queue_;
  std::function<void(PeerMessage)> receiver_;
  bool delivering_ = false;
  bool stopped_ = false;
  bool ended_ = false;
  std::thread thread_;
};

inline std::unique_ptr<Peers> MemoryNetwork::join(std::uint32_t id) {
  auto end = std::make_unique<End>(*this, id);
  const std::lock_guard lock(mutex_);
  ends_[id] = end.get();
  return end;
}

inline void MemoryNetwork::stop(std::uint32_t id, bool stopped) {
  const std::lock_guard lock(mutex_);
  if (const auto end = ends_.find(id); end != ends_.end()) end->second->stop(stopped);
}

inline Status MemoryNetwork::send(std::uint32_t from, std::uint32_t to, std::span<const std::byte> head,
                                  std::span<const std::byte> body, std::shared_ptr<const LentBytes> lent) {
  const std::size_t size = head.size() + body.size() + (lent ? lent->size() : 0);
  if (size > Peers::kMaxMessageBytes) {
    return Error{Code::kInvalidArgument, "peers: message too long"};
  }
  const std::lock_guard lock(mutex_);
  if (silent_.contains(from) || silent_.contains(to) || cuts_.contains({from, to})) return {};
  const auto end = ends_.find(to);
  if (end == ends_.end()) return Error{Code::kUnavailable, "peers: no such member"};
  if (auto& refusals = refusals_[to]; refusals > 0) {
    --refusals;
    return Error{Code::kUnavailable, "peers: too much is queued"};
  }
  auto bytes = std::make_shared<std::vector<std::byte>>(head.begin(), head.end());
  bytes->insert(bytes->end(), body.begin(), body.end());
  ++messages_;
  bytes_ += size;
  end->second->put(from, std::move(bytes), std::move(lent), delays_[to]);
  return {};
}

}  // namespace troupe::collectives
