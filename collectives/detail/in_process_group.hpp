#pragma once
// One membership of an in-process group: the memory in which its ranks meet. Private to the in-process back end.
// One mutex guards who is there and what they call. Values are touched chunk by chunk without it, by whichever ranks
// are waiting, and only between the arrival of the last rank and the completion of the call (detail/meeting.hpp).
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <troupe/collectives/activity.hpp>
#include <troupe/collectives/call.hpp>
#include <troupe/collectives/cooperative_scheduler.hpp>
#include <troupe/collectives/detail/brief_wait.hpp>
#include <troupe/collectives/detail/meeting.hpp>

namespace troupe::collectives {

using TimePoint = std::chrono::steady_clock::time_point;

/// What one rank brings to a meeting.
struct Arrival {
  int rank = 0;
  std::uint64_t index = 0;  // how many calls this rank has made before in this group
  Call call;
  const float* input = nullptr;
  float* output = nullptr;
  double weight = 1;
};

/// Who waits for a meeting, and for how long.
struct Waiter {
  int rank = 0;
  TimePoint called;
  Duration timeout{};

  TimePoint deadline() const { return called + timeout; }
};

class InProcessGroup {
 public:
  /// view: some rank's, for the members' names. scheduler: see InProcessHub.
  InProcessGroup(const GroupView& view, InProcessAlgorithm algorithm, CooperativeScheduler* scheduler);

  int size() const { return size_; }

  /// Takes the rank's seat; activity must live until leave(). Errors: kAlreadyExists; the group's failure.
  Status enter(int rank, Activity& activity);
  /// Breaks the group, since the others must not wait for somebody who has gone.
  void leave(int rank);
  /// Waits until all seats are taken. Errors: kDeadlineExceeded (and the group has failed); the group's failure.
  Status await_all(Duration timeout);

  /// Registers a rank's call. Errors: kUnavailable (too many unfinished); the group's failure, also when this call
  /// causes it.
  /// The meeting is the group's, and its own until finish().
  Result<detail::Meeting*> arrive(const Arrival& arrival);
  /// Works on the meeting until it is complete, the group has failed or the deadline has passed, which fails the group.
  /// When it returns, nobody touches this meeting's buffers any more.
  Status wait(detail::Meeting& meeting, const Waiter& waiter);
  /// The same for one step: an answer if wait() would return at once, else nothing. Does at most one chunk of work.
  std::optional<Status> poll(detail::Meeting& meeting, const Waiter& waiter);
  /// The rank has its answer: one unfinished call less. By the rank's own thread, as arrive() is.
  void finish(detail::Meeting& meeting, int rank);

  /// Makes `error` the answer to all unfinished and later calls; the first failure stays.
  void fail(Error error);
  std::optional<Error> failure() const;

 private:
  /// Complete, or failed and nobody is at work any more.
  bool done(const detail::Meeting& meeting) const { return meeting.is_complete() || (failed_ && at_work_ == 0); }
  Status answer(const detail::Meeting& meeting) const;
  /// wait() where ranks take turns: nobody is at work while another is.
  Status yield(detail::Meeting& meeting, const Waiter& waiter);
  void fail_locked(Error error);
  void fail_late(const detail::Meeting& meeting, const Waiter& waiter);
  /// Who is missing, and what they do instead.
  std::string verdict_on(const detail::Meeting& meeting, const Waiter& waiter) const;
  /// Does chunks of the meeting as long as there are any for this rank, at most `most`; whether it did one. Without the
  /// lock.
  bool work(detail::Meeting& meeting, int rank, int most);
  /// With which part of the work a rank begins: its own, or where ranks outnumber cores that of the core that it runs
  /// on now.
  int own_part(const detail::Meeting& meeting, int rank) const;
  void wake_all();
  /// The meeting of the call with this index; for the first rank that comes, a new or a spent one.
  detail::Meeting& meeting_of(const Arrival& arrival);

  const GroupView view_;
  const std::uint64_t epoch_;
  const int size_;
  const InProcessAlgorithm algorithm_;
  CooperativeScheduler* const scheduler_;  // null: each rank has a thread that may sleep
  const std::vector<int> cores_;           // their numbers; at least one
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> seats_;                     // those that were ever taken
  std::vector<Activity*> activities_;           // [ranks]; null: not there
  std::vector<detail::BriefWait> brief_waits_;  // [ranks]
  int seated_ = 0;
  std::optional<Error> failure_;
  std::atomic<bool> failed_{false};                         // whether failure_ is there
  std::atomic<int> at_work_{0};                             // ranks that may be touching buffers
  std::atomic<int> asleep_{0};                              // in wait()
  std::atomic<std::uint64_t> events_{0};                    // after which a sleeper must look again
  std::vector<std::unique_ptr<detail::Meeting>> meetings_;  // as many as were ever under way at once
  std::vector<int> unfinished_;                             // [ranks], each <= Communicator::kMaxPending
};

}  // namespace troupe::collectives
