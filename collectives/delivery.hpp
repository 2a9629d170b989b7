#pragma once
// Messages for one member of a group that is in this process, from the threads of the others: the receiving half of a
// Peers (collectives/peers.hpp) whose carrier is a function call.
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>

#include <troupe/collectives/peers.hpp>

namespace troupe::collectives {

/// Hands over one message at a time, in the order in which put() was called, on the thread of whoever called it, or of
/// who is at it already. No lock is held meanwhile: a receiver may answer at once, and so may the one that gets the
/// answer. Any thread.
class Delivery {
 public:
  /// What comes before there is a receiver waits; beyond `kEarlyMax` of those it is lost, as with a process that died.
  void put(PeerMessage message);
  /// As Peers::deliver_to(). Not from within the receiver.
  void deliver_to(std::function<void(PeerMessage)> receiver);

  static constexpr std::size_t kEarlyMax = 256;

 private:
  void hand_over(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable idle_;
  std::deque<PeerMessage> waiting_;
  std::function<void(PeerMessage)> receiver_;
  bool delivering_ = false;
};

}  // namespace troupe::collectives
