#pragma once
// One membership of an in-process group: the memory in which its ranks meet. Private to the in-process back end.
// One mutex guards everything but the values: those are touched chunk by chunk without it, by whichever ranks are
// waiting, and only between the arrival of the last rank and the completion of the call.
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <troupe/collectives/activity.hpp>
#include <troupe/collectives/call.hpp>

namespace troupe::collectives {

using TimePoint = std::chrono::steady_clock::time_point;

/// One collective of a group. Fields are guarded by the group's mutex.
struct Meeting {
  Call call;
  int first_rank = 0;  // the one that came first, with which all others are compared
  CallPlace place;
  int arrived = 0;
  std::vector<bool> here;            // [ranks]
  std::vector<const float*> inputs;  // [ranks]
  std::vector<float*> outputs;       // [ranks]
  std::vector<double> weights;       // [ranks]
  std::vector<float> shares;         // [ranks] in kMean, else empty; there once all have arrived
  std::size_t chunks = 0;
  std::size_t chunks_taken = 0;
  std::size_t chunks_done = 0;
  bool complete = false;
  bool has_verdict = false;  // somebody has said who is missing

  /// Whether some thread may be touching buffers.
  bool busy() const { return chunks_taken > chunks_done; }
};

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
  TimePoint deadline;
};

class InProcessGroup {
 public:
  /// view: some rank's, for the members' names.
  explicit InProcessGroup(const GroupView& view);

  std::uint64_t epoch() const { return epoch_; }
  int size() const { return size_; }

  /// Takes the rank's seat; activity must live until leave(). Errors: kAlreadyExists; the group's failure.
  Status enter(int rank, Activity& activity);
  /// Breaks the group, since the others must not wait for somebody who has gone.
  void leave(int rank);
  /// Waits until all seats are taken. Errors: kDeadlineExceeded (and the group has failed); the group's failure.
  Status await_all(TimePoint deadline);

  /// Registers a rank's call. Errors: kUnavailable (too many unfinished); the group's failure, also when this call
  /// causes it.
  Result<std::shared_ptr<Meeting>> arrive(const Arrival& arrival);
  /// Works on the meeting until it is complete, the group has failed or the deadline has passed, which fails the group.
  /// When it returns, nobody touches this meeting's buffers any more.
  Status wait(Meeting& meeting, const Waiter& waiter);
  /// The same for one step: an answer if wait() would return at once, else nothing. Does at most one chunk of work.
  std::optional<Status> poll(Meeting& meeting, const Waiter& waiter);
  /// One unfinished call of the rank less.
  void finish(int rank);

  /// Makes `error` the answer to all unfinished and later calls; the first failure stays.
  void fail(Error error);

 private:
  bool done(const Meeting& meeting) const { return meeting.complete || (failure_ && !meeting.busy()); }
  Status answer(const Meeting& meeting) const;
  void fail_locked(Error error);
  void fail_late(const Meeting& meeting, const Waiter& waiter);
  /// Who is missing, and what they do instead.
  std::string verdict_on(const Meeting& meeting, const Waiter& waiter) const;
  /// Does one chunk if there is one to do, without the lock meanwhile.
  bool work(Meeting& meeting, std::unique_lock<std::mutex>& lock);

  const GroupView view_;
  const std::uint64_t epoch_;
  const int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> seats_;            // those that were ever taken
  std::vector<Activity*> activities_;  // [ranks]; null: not there
  int seated_ = 0;
  std::optional<Error> failure_;
  std::map<std::uint64_t, std::shared_ptr<Meeting>> meetings_;  // by index; those for which ranks are missing
  std::vector<int> unfinished_;                                 // [ranks], each <= Communicator::kMaxPending
};

}  // namespace troupe::collectives
