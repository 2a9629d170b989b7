#include <troupe/collectives/detail/in_process_group.hpp>

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <climits>
#include <iterator>
#include <utility>

#include <troupe/collectives/verdict.hpp>
#include <troupe/core/log.hpp>
#include <troupe/core/pause_briefly.hpp>

namespace troupe::collectives {

using detail::Meeting;

namespace {

constexpr int kLooks = 100;  // some 3 us

/// The numbers of the cores on which this process may run.
std::vector<int> allowed_cores() {
  std::vector<int> cores;
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &allowed)) cores.push_back(core);
    }
  }
  if (cores.empty()) cores.push_back(0);  // more cores than the set can say
  return cores;
}

/// "rank 1, 3": those not yet here.
std::string missing(const std::vector<bool>& here) {
  std::vector<std::size_t> ranks;
  for (std::size_t r = 0; r < here.size(); ++r) {
    if (!here[r]) ranks.push_back(r);
  }
  return fmt::format("rank {} of {}", fmt::join(ranks, ", "), here.size());
}

}  // namespace

InProcessGroup::InProcessGroup(const GroupView& view, InProcessAlgorithm algorithm, CooperativeScheduler* scheduler)
    : view_(view),
      epoch_(view.epoch),
      size_(view.size),
      algorithm_(algorithm),
      scheduler_(scheduler),
      cores_(allowed_cores()),
      seats_(static_cast<std::size_t>(size_)),
      activities_(static_cast<std::size_t>(size_)),
      brief_waits_(static_cast<std::size_t>(size_)),
      unfinished_(static_cast<std::size_t>(size_)) {}

Status InProcessGroup::enter(int rank, Activity& activity) {
  const std::lock_guard lock(mutex_);
  if (failure_) return *failure_;
  if (seats_[static_cast<std::size_t>(rank)]) {
    return Error{Code::kAlreadyExists, fmt::format("group of epoch {}: rank {} has been taken", epoch_, rank)};
  }
  seats_[static_cast<std::size_t>(rank)] = true;
  activities_[static_cast<std::size_t>(rank)] = &activity;
  if (++seated_ == size_) changed_.notify_all();
  return {};
}

void InProcessGroup::leave(int rank) {
  const std::lock_guard lock(mutex_);
  activities_[static_cast<std::size_t>(rank)] = nullptr;
  fail_locked({Code::kCancelled, fmt::format("collective: rank {} has left epoch {}", rank, epoch_)});
}

Status InProcessGroup::await_all(Duration timeout) {
  const auto over = [&] { return seated_ == size_ || failure_; };
  std::unique_lock lock(mutex_, std::defer_lock);
  bool in_time = false;
  if (scheduler_ != nullptr) {
    in_time = scheduler_->yield_until(over, timeout);
    lock.lock();
  } else {
    lock.lock();
    in_time = changed_.wait_until(lock, std::chrono::steady_clock::now() + timeout, over);
  }
  if (!in_time) {
    fail_locked({Code::kDeadlineExceeded, fmt::format("group of epoch {}: {} did not come", epoch_, missing(seats_))});
  }
  if (seated_ == size_) return {};  // it has formed, though a faster rank may have broken it since
  return *failure_;
}

Meeting& InProcessGroup::meeting_of(const Arrival& arrival) {
  Meeting* spent = nullptr;
  for (const auto& meeting : meetings_) {
    if (meeting->arrived < size_) {
      if (meeting->place.index == arrival.index) return *meeting;
    } else if (meeting->users.load(std::memory_order_acquire) == 0) {
      spent = meeting.get();
    }
  }
  if (spent == nullptr) spent = meetings_.emplace_back(std::make_unique<Meeting>(size_)).get();
  spent->begin(arrival.call, arrival.rank, {epoch_, arrival.index});
  return *spent;
}

Result<Meeting*> InProcessGroup::arrive(const Arrival& arrival) {
  std::unique_lock lock(mutex_, std::try_to_lock);
  // All ranks come at once, and none holds it for long: without this half of them would fall asleep here.
  for (int look = 0; !lock.owns_lock() && look < kLooks; ++look) {
    pause_briefly();
    (void)lock.try_lock();
  }
  if (!lock.owns_lock()) lock.lock();
  if (failure_) return *failure_;
  const auto rank = static_cast<std::size_t>(arrival.rank);
  if (unfinished_[rank] == Communicator::kMaxPending) {
    return Error{Code::kUnavailable, fmt::format("collective: rank {} has {} unfinished calls already, and calls {}",
                                                 rank, unfinished_[rank], arrival.call.describe())};
  }
  Meeting& meeting = meeting_of(arrival);
  const Status same = check_same_call(meeting.call, meeting.first_rank, arrival.call, arrival.rank, meeting.place);
  if (!same.ok()) {
    fail_locked(same.error());
    return *failure_;
  }
  meeting.here[rank] = true;
  meeting.inputs[rank] = arrival.input;
  meeting.outputs[rank] = arrival.output;
  meeting.weights[rank] = arrival.weight;
  ++unfinished_[rank];
  meeting.users.fetch_add(1, std::memory_order_relaxed);
  if (++meeting.arrived == size_) {
    if (!meeting.open(algorithm_, std::min(size_, static_cast<int>(cores_.size())))) {
      fail_locked({Code::kInvalidArgument,
                   fmt::format("collective: {}: the weights of all {} ranks are 0", meeting.call.describe(), size_)});
    }
    ++events_;
    // As many helpers as there are cores besides this rank's; the others wake once, when all is done. But a sleeper who
    // waits for another call could not help, and where nothing is to be done nobody else wakes them.
    const bool wakes_all = meeting.is_complete() || asleep_ != meeting.asleep || std::ssize(cores_) >= size_;
    lock.unlock();  // else those who wake up would wait for it
    if (wakes_all) {
      changed_.notify_all();
    } else {
      for (int i = 0; i < std::max<std::ptrdiff_t>(1, std::ssize(cores_) - 1); ++i) changed_.notify_one();
    }
  }
  return &meeting;
}

int InProcessGroup::own_part(const Meeting& meeting, int rank) const {
  if (std::ssize(cores_) >= size_ || !meeting.is_collective()) return rank;
  const auto core = std::ranges::find(cores_, sched_getcpu());
  return core == cores_.end() ? rank : static_cast<int>(core - cores_.begin());
}

bool InProcessGroup::work(Meeting& meeting, int rank, int most) {
  // Whoever breaks the group sees either that this rank is at work, and lets the others wait for it, or this rank sees
  // that the group is broken.
  if (!meeting.has_work()) return false;
  at_work_.fetch_add(1);
  Meeting::Did did = Meeting::Did::kNothing;
  bool ends_stage = false;
  bool has_worked = false;
  const int own = own_part(meeting, rank);
  for (int i = 0; i < most && !failed_; ++i) {
    did = meeting.work(own, most == INT_MAX);
    if (did == Meeting::Did::kNothing) break;
    has_worked = true;
    ends_stage |= did == Meeting::Did::kEndOfStage;
  }
  const bool is_last = at_work_.fetch_sub(1) == 1;
  if (ends_stage || (failed_ && is_last)) wake_all();
  return has_worked;
}

void InProcessGroup::wake_all() {
  ++events_;
  if (asleep_ == 0) return;                // then whoever is about to sleep sees the event
  { const std::lock_guard lock(mutex_); }  // whoever has not seen it sleeps by now
  changed_.notify_all();
}

Status InProcessGroup::answer(const Meeting& meeting) const {
  if (meeting.is_complete()) return {};
  return *failure_;
}

std::string InProcessGroup::verdict_on(const Meeting& meeting, const Waiter& waiter) const {
  std::vector<MissingRank> missing;
  for (int rank = 0; rank < size_; ++rank) {
    if (meeting.here[static_cast<std::size_t>(rank)]) continue;
    missing.push_back({.rank = rank});
    if (const Activity* activity = activities_[static_cast<std::size_t>(rank)]) missing.back().now = activity->now();
  }
  const Activity* const own = activities_[static_cast<std::size_t>(waiter.rank)];
  return verdict(own ? own->now().step : 0, view_, meeting.call, missing);
}

void InProcessGroup::fail_late(const Meeting& meeting, const Waiter& waiter) {
  const std::string what = meeting.arrived < size_
                               ? verdict_on(meeting, waiter)
                               : fmt::format("{}: a rank does not do its part", activity_of(meeting.call));
  const Duration waited = scheduler_ ? waiter.timeout : std::chrono::steady_clock::now() - waiter.called;
  fail_locked({Code::kDeadlineExceeded, fmt::format("collective: {} (call {} of epoch {}, {:.1f} s)", what,
                                                    meeting.place.index, epoch_, seconds(waited))});
}

Status InProcessGroup::yield(Meeting& meeting, const Waiter& waiter) {
  Activity* const activity = activities_[static_cast<std::size_t>(waiter.rank)];
  std::optional<std::string> before;  // what this rank was at, once it says that it waits
  for (;;) {
    if (!failed_) work(meeting, waiter.rank, INT_MAX);
    if (done(meeting)) break;
    if (activity && !before) {
      before = activity->now().what;
      activity->enter(activity_of(meeting.call));
    }
    const bool in_time = scheduler_->yield_until([&] { return done(meeting) || meeting.has_work(); }, waiter.timeout);
    const std::lock_guard lock(mutex_);
    if (!in_time && !failure_) fail_late(meeting, waiter);
  }
  if (before) activity->enter(*before);
  const std::lock_guard lock(mutex_);
  return answer(meeting);
}

Status InProcessGroup::wait(Meeting& meeting, const Waiter& waiter) {
  if (scheduler_ != nullptr) return yield(meeting, waiter);
  const auto over = [&] {
    work(meeting, waiter.rank, INT_MAX);
    return meeting.is_complete() || failed_;
  };
  brief_waits_[static_cast<std::size_t>(waiter.rank)].until(over, [&] { return std::ssize(cores_) < size_; });
  if (meeting.is_complete()) return {};
  std::unique_lock lock(mutex_);
  Activity* const activity = activities_[static_cast<std::size_t>(waiter.rank)];
  std::optional<std::string> before;  // what this rank was at, once it says that it waits
  asleep_.fetch_add(1);
  ++meeting.asleep;
  while (!done(meeting)) {
    const std::uint64_t seen = events_;
    lock.unlock();
    const bool has_worked = work(meeting, waiter.rank, INT_MAX);
    lock.lock();
    if (has_worked || done(meeting) || events_ != seen) continue;
    if (activity && !before) {
      before = activity->now().what;
      activity->enter(activity_of(meeting.call));
    }
    // A thread that is at work is back soon and must be waited for, deadline or not.
    if (failure_) {
      changed_.wait_for(lock, std::chrono::milliseconds(1), [&] { return done(meeting); });
      continue;
    }
    const TimePoint until =
        meeting.has_verdict ? waiter.deadline() : std::min(waiter.deadline(), waiter.called + kVerdictAfter);
    changed_.wait_until(lock, until);
    if (done(meeting) || failure_) continue;
    const TimePoint now = std::chrono::steady_clock::now();
    if (now >= waiter.deadline()) {
      fail_late(meeting, waiter);
    } else if (now >= waiter.called + kVerdictAfter && !std::exchange(meeting.has_verdict, true) &&
               meeting.arrived < size_) {
      log::warn("{}", verdict_on(meeting, waiter));
    }
  }
  --meeting.asleep;
  asleep_.fetch_sub(1);
  if (before) activity->enter(*before);
  return answer(meeting);
}

std::optional<Status> InProcessGroup::poll(Meeting& meeting, const Waiter& waiter) {
  if (!failed_) work(meeting, waiter.rank, 1);
  if (meeting.is_complete()) return Status{};
  const std::lock_guard lock(mutex_);
  const bool is_late = scheduler_ == nullptr && std::chrono::steady_clock::now() >= waiter.deadline();
  if (!failed_ && is_late) fail_late(meeting, waiter);
  if (!done(meeting)) return std::nullopt;
  return answer(meeting);
}

void InProcessGroup::finish(Meeting& meeting, int rank) {
  --unfinished_[static_cast<std::size_t>(rank)];
  meeting.users.fetch_sub(1, std::memory_order_release);
}

void InProcessGroup::fail(Error error) {
  const std::lock_guard lock(mutex_);
  fail_locked(std::move(error));
}

std::optional<Error> InProcessGroup::failure() const {
  if (!failed_) return std::nullopt;
  const std::lock_guard lock(mutex_);
  return failure_;
}

void InProcessGroup::fail_locked(Error error) {
  if (!failure_) failure_ = std::move(error);
  failed_ = true;
  ++events_;
  changed_.notify_all();
}

}  // namespace troupe::collectives
