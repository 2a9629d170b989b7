#include <troupe/collectives/delivery.hpp>

#include <utility>

namespace troupe::collectives {

void Delivery::put(PeerMessage message) {
  std::unique_lock lock(mutex_);
  if (!receiver_ && waiting_.size() >= kEarlyMax) return;
  waiting_.push_back(std::move(message));
  hand_over(lock);
}

void Delivery::deliver_to(std::function<void(PeerMessage)> receiver) {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] { return !delivering_; });
  receiver_ = std::move(receiver);
  hand_over(lock);
}

void Delivery::hand_over(std::unique_lock<std::mutex>& lock) {
  if (delivering_) return;  // who is at it takes this one, too
  delivering_ = true;
  while (receiver_ && !waiting_.empty()) {
    PeerMessage message = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    receiver_(std::move(message));
    lock.lock();
  }
  delivering_ = false;
  idle_.notify_all();
}

}  // namespace troupe::collectives
