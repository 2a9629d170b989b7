#pragma once
// The runs that one `troupe watch` watches, shared by everybody who looks at them: pages, the terminal, Prometheus. A
// run is read only while somebody looks at it, at most once a second, whoever and how many they are.
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <troupe/core/clock.hpp>
#include <troupe/page/watched_run.hpp>

namespace troupe::page {

class Runs {
 public:
  /// Runs that are held in memory at a time, at most: those that nobody has looked at for longest go.
  static constexpr std::size_t kHeldMax = 16;
  static constexpr Duration kEvery = std::chrono::milliseconds(950);

  Runs(std::vector<apps::RunDirectory> directories, AskChief ask);

  std::size_t count() const { return slots_.size(); }
  const apps::RunDirectory& directory(std::size_t run) const { return slots_[run]->directory; }

  /// Calls look(const WatchedRun&) with a run that has been read within the last second; others wait meanwhile.
  template <typename Look>
  auto with(std::size_t run, Look look) {
    const std::lock_guard lock(slots_[run]->mutex);
    return look(refreshed(*slots_[run]));
  }

  /// Waits, but no longer once end() has been called; returns whether it has not.
  bool wait(Duration time);
  void end();

 private:
  struct Slot {
    apps::RunDirectory directory;
    std::mutex mutex;
    std::unique_ptr<WatchedRun> run;
    Duration read_at{};
  };
  const WatchedRun& refreshed(Slot& slot);
  void make_room(const Slot& wanted);

  AskChief ask_;
  SteadyClock clock_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool ends_ = false;
};

}  // namespace troupe::page
