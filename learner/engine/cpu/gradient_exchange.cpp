#include <troupe/learner/engine/cpu/gradient_exchange.hpp>

#include <algorithm>
#include <utility>

namespace troupe::learner {

GradientExchange::GradientExchange(std::vector<Bucket> buckets, int threads,
                                   std::function<Status(const Bucket&)> reduce)
    : buckets_(std::move(buckets)),
      threads_(threads),
      reduce_(std::move(reduce)),
      arrived_(buckets_.size(), 0),
      thread_([this] { work(); }) {}

GradientExchange::~GradientExchange() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void GradientExchange::begin() {
  {
    const std::lock_guard lock(mutex_);
    std::ranges::fill(arrived_, 0);
    done_ = 0;
    ++run_;
    active_ = true;
    cancelled_ = false;
    status_ = {};
  }
  changed_.notify_all();
}

void GradientExchange::arrive(std::size_t bucket) {
  const std::lock_guard lock(mutex_);
  if (++arrived_[bucket] == threads_) changed_.notify_all();
}

void GradientExchange::cancel() {
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
  }
  changed_.notify_all();
}

void GradientExchange::await_before(std::size_t call) {
  const auto count =
      static_cast<std::size_t>(std::ranges::lower_bound(buckets_, call, {}, &Bucket::ready) - buckets_.begin());
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ >= count || !active_; });
}

Status GradientExchange::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !active_; });
  return status_;
}

void GradientExchange::work() {
  std::unique_lock lock(mutex_);
  for (std::uint64_t served = 0;;) {
    changed_.wait(lock, [&] { return run_ != served || stop_; });
    if (stop_) return;
    served = run_;
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      changed_.wait(lock, [&] { return arrived_[b] == threads_ || cancelled_ || stop_; });
      if (cancelled_ || stop_) break;
      if (status_.ok()) {
        lock.unlock();
        Status reduced = reduce_(buckets_[b]);
        lock.lock();
        status_ = std::move(reduced);
      }
      done_ = b + 1;
      changed_.notify_all();
    }
    active_ = false;
    changed_.notify_all();
  }
}

}  // namespace troupe::learner
