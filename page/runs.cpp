#include <troupe/page/runs.hpp>

#include <utility>

namespace troupe::page {

Runs::Runs(std::vector<apps::RunDirectory> directories, AskChief ask) : ask_(std::move(ask)) {
  for (apps::RunDirectory& directory : directories) {
    slots_.push_back(std::make_unique<Slot>());
    slots_.back()->directory = std::move(directory);
  }
}

const WatchedRun& Runs::refreshed(Slot& slot) {
  const Duration now = clock_.now();
  if (slot.run == nullptr) {
    make_room(slot);
    slot.run = std::make_unique<WatchedRun>(slot.directory, ask_, clock_);
  } else if (now - slot.read_at < kEvery) {
    return *slot.run;
  }
  slot.run->refresh();
  slot.read_at = now;
  return *slot.run;
}

void Runs::make_room(const Slot& wanted) {
  // One that is being looked at just now has its lock, and stays.
  std::size_t held = 0;
  Slot* oldest = nullptr;
  for (const auto& slot : slots_) {
    if (slot.get() == &wanted) continue;
    const std::unique_lock lock(slot->mutex, std::try_to_lock);
    if (!lock) {
      ++held;
    } else if (slot->run != nullptr) {
      ++held;
      if (oldest == nullptr || slot->read_at < oldest->read_at) oldest = slot.get();
    }
  }
  if (held < kHeldMax || oldest == nullptr) return;
  const std::unique_lock lock(oldest->mutex, std::try_to_lock);
  if (lock) oldest->run.reset();
}

bool Runs::wait(Duration time) {
  std::unique_lock lock(mutex_);
  return !ended_.wait_for(lock, time, [&] { return ends_; });
}

void Runs::end() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  ended_.notify_all();
}

}  // namespace troupe::page
