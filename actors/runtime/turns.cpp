#include <troupe/actors/runtime/turns.hpp>

#include <algorithm>
#include <utility>

#include <troupe/core/check.hpp>

namespace troupe::actors {

Turns::Turns(const Clock& clock, std::size_t most) : clock_(clock) {
  try {
    for (std::size_t i = 0; i <= most; ++i) {
      Worker* const worker = workers_.emplace_back(std::make_unique<Worker>()).get();
      worker->thread = std::thread([this, worker] { serve(*worker); });
      idle_.push_back(worker);
    }
  } catch (...) {
    end();
    throw;
  }
}

Turns::~Turns() {
  TROUPE_CHECK(waiting_.empty(), "{} turns have not ended", waiting_.size());
  end();
}

void Turns::end() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  for (const auto& worker : workers_) {
    worker->begins.notify_one();
    if (worker->thread.joinable()) worker->thread.join();
  }
}

void Turns::serve(Worker& worker) {
  std::unique_lock lock(mutex_);
  for (;;) {
    worker.begins.wait(lock, [&] { return running_ == &worker || ends_; });
    if (running_ != &worker) return;
    lock.unlock();
    std::exchange(worker.work, nullptr)();
    idle_.push_back(&worker);
    lock.lock();
    running_ = nullptr;
    given_back_.notify_one();
  }
}

void Turns::give(Worker& worker) {
  std::unique_lock lock(mutex_);
  running_ = &worker;
  worker.begins.notify_one();
  given_back_.wait(lock, [&] { return running_ == nullptr; });
}

void Turns::run(std::function<void()> work) {
  Worker& worker = *idle_.back();  // there is one: yield_until() leaves it
  idle_.pop_back();
  worker.work = std::move(work);
  give(worker);
}

bool Turns::resume() {
  const auto next = std::ranges::find_if(waiting_, [this](const Worker* worker) {
    return cancelled_ || (*worker->over)() || clock_.now() >= worker->deadline;
  });
  if (next == waiting_.end()) return false;
  Worker& worker = **next;
  waiting_.erase(next);
  give(worker);
  return true;
}

bool Turns::yield_until(const std::function<bool()>& over, Duration timeout) {
  if (over()) return true;
  std::unique_lock lock(mutex_);
  Worker* const own = running_;
  if (own == nullptr || own->thread.get_id() != std::this_thread::get_id() || cancelled_ || idle_.empty()) return false;
  own->over = &over;
  own->deadline = clock_.now() + timeout;
  waiting_.push_back(own);
  running_ = nullptr;
  given_back_.notify_one();
  own->begins.wait(lock, [&] { return running_ == own; });
  return over();
}

}  // namespace troupe::actors
