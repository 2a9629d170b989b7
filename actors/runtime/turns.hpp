#pragma once
// Turns: work that runs one piece at a time, of which some pieces wait for others in the middle. A deterministic run
// has one thread's worth of work, but a member of a group waits within its step until the other members have come. So
// each slice of an actor is a turn on one of a few threads, of which exactly one runs at any time. A turn that waits
// gives way to the next one, and goes on later where it stopped. Used by the Runtime's loop (control/runtime.cpp) on
// one side and by collectives (CooperativeScheduler) on the other.
//
// The order depends on nothing but what the turns do: of those that wait, in the order in which they began to, the
// first whose condition holds goes on.
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <troupe/collectives/cooperative_scheduler.hpp>
#include <troupe/core/clock.hpp>

namespace troupe::actors {

/// One thread, the loop's, makes and destroys it and calls run(), resume() and cancel(); it sleeps while a turn runs.
class Turns final : public collectives::CooperativeScheduler {
 public:
  /// clock: on which turns wait. most: how many turns may wait at once, at least 0; there is a thread for each of them
  /// and one more. Throws std::system_error when there are not so many threads.
  Turns(const Clock& clock, std::size_t most);
  /// Nobody may wait any more: cancel() and resume() come first.
  ~Turns() override;
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  /// A new turn: calls `work` on a thread of its own, and returns once that has ended or waits. It may not throw.
  void run(std::function<void()> work);
  /// Goes on with the first turn that waits and need not any more, until that has ended or waits again. False: there is
  /// none.
  bool resume();
  /// How many turns wait.
  std::size_t waiting() const { return waiting_.size(); }
  /// The end: resume() goes on with all turns that wait, whatever they wait for, and later ones do not begin to.
  void cancel() { cancelled_ = true; }

  Duration now() const override { return clock_.now(); }
  /// From within a turn. False at once where as many wait already as may, and outside of any turn, where nobody could
  /// come meanwhile.
  bool yield_until(const std::function<bool()>& over, Duration timeout) override;

 private:
  struct Worker {
    std::condition_variable begins;
    std::function<void()> work;
    const std::function<bool()>* over = nullptr;  ///< of a turn that waits
    Duration deadline{};
    std::thread thread;  ///< the last: it uses the rest
  };
  void serve(Worker& worker);
  void end();
  /// Lets the worker run until it gives its turn back.
  void give(Worker& worker);

  const Clock& clock_;
  bool cancelled_ = false;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<Worker*> idle_;
  std::deque<Worker*> waiting_;
  std::mutex mutex_;  ///< of what follows; who has the turn needs no lock for the rest
  std::condition_variable given_back_;
  Worker* running_ = nullptr;  ///< null: the loop runs
  bool ends_ = false;
};

}  // namespace troupe::actors
