#include <troupe/collectives/in_process_group.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include <troupe/collectives/reduce.hpp>
#include <troupe/collectives/verdict.hpp>
#include <troupe/core/log.hpp>

namespace troupe::collectives {
namespace {

constexpr std::size_t kChunk = 16384;  // elements: long against taking the lock, short against the second-level cache

/// Elements over which a call's work is divided.
std::size_t work_elements(const Call& call, int ranks) {
  switch (call.kind) {
    case CallKind::kReduceScatter:
      return call.count * static_cast<std::size_t>(ranks);
    case CallKind::kBarrier:
      return 0;
    default:
      return call.count;
  }
}

/// Elements [begin, end) of the call's work, for all ranks.
void do_chunk(const Meeting& meeting, std::size_t begin, std::size_t end) {
  const Call& call = meeting.call;
  const std::size_t ranks = meeting.inputs.size();
  // [from, to) of every input into each of `outputs`.
  const auto reduce_part = [&](std::size_t from, std::size_t to, std::span<float* const> outputs) {
    std::vector<const float*> inputs(ranks);
    for (std::size_t r = 0; r < ranks; ++r) inputs[r] = meeting.inputs[r] + from;
    reduce_tree(inputs, meeting.shares, call.op, to - from, outputs);
  };
  switch (call.kind) {
    case CallKind::kAllReduce: {
      std::vector<float*> outputs(ranks);
      for (std::size_t r = 0; r < ranks; ++r) outputs[r] = meeting.outputs[r] + begin;
      reduce_part(begin, end, outputs);
      return;
    }
    case CallKind::kReduceScatter:
      for (std::size_t to = 0; begin < end; begin = to) {  // a chunk may lie in more than one row
        const std::size_t row = begin / call.count;
        to = std::min(end, (row + 1) * call.count);
        reduce_part(begin, to, std::array{meeting.outputs[row] + begin % call.count});
      }
      return;
    case CallKind::kAllGather:
      for (std::size_t r = 0; r < ranks; ++r) {
        for (float* output : meeting.outputs) {
          std::copy(meeting.inputs[r] + begin, meeting.inputs[r] + end, output + r * call.count + begin);
        }
      }
      return;
    case CallKind::kBroadcast: {
      const float* source = meeting.inputs[static_cast<std::size_t>(call.root)];
      for (float* output : meeting.outputs) {
        if (output != source) std::copy(source + begin, source + end, output + begin);
      }
      return;
    }
    case CallKind::kBarrier:
      return;
  }
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

InProcessGroup::InProcessGroup(const GroupView& view)
    : view_(view),
      epoch_(view.epoch),
      size_(view.size),
      seats_(static_cast<std::size_t>(size_)),
      activities_(static_cast<std::size_t>(size_)),
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

Status InProcessGroup::await_all(TimePoint deadline) {
  std::unique_lock lock(mutex_);
  const bool in_time = changed_.wait_until(lock, deadline, [&] { return seated_ == size_ || failure_; });
  if (!in_time) {
    fail_locked({Code::kDeadlineExceeded, fmt::format("group of epoch {}: {} did not come", epoch_, missing(seats_))});
  }
  if (seated_ == size_) return {};  // it has formed, though a faster rank may have broken it since
  return *failure_;
}

Result<std::shared_ptr<Meeting>> InProcessGroup::arrive(const Arrival& arrival) {
  const std::lock_guard lock(mutex_);
  if (failure_) return *failure_;
  const auto rank = static_cast<std::size_t>(arrival.rank);
  if (unfinished_[rank] == Communicator::kMaxPending) {
    return Error{Code::kUnavailable, fmt::format("collective: rank {} has {} unfinished calls already, and calls {}",
                                                 rank, unfinished_[rank], arrival.call.describe())};
  }
  auto& meeting = meetings_[arrival.index];
  if (!meeting) {
    const auto ranks = static_cast<std::size_t>(size_);
    meeting = std::make_shared<Meeting>(Meeting{.call = arrival.call,
                                                .first_rank = arrival.rank,
                                                .place = {epoch_, arrival.index},
                                                .here = std::vector<bool>(ranks),
                                                .inputs = std::vector<const float*>(ranks),
                                                .outputs = std::vector<float*>(ranks),
                                                .weights = std::vector<double>(ranks)});
  }
  const Status same = check_same_call(meeting->call, meeting->first_rank, arrival.call, arrival.rank, meeting->place);
  if (!same.ok()) {
    fail_locked(same.error());
    return *failure_;
  }
  meeting->here[rank] = true;
  meeting->inputs[rank] = arrival.input;
  meeting->outputs[rank] = arrival.output;
  meeting->weights[rank] = arrival.weight;
  ++unfinished_[rank];
  std::shared_ptr<Meeting> kept = meeting;
  if (++kept->arrived == size_) {
    meetings_.erase(arrival.index);
    const double total = std::accumulate(kept->weights.begin(), kept->weights.end(), 0.0);
    const bool reduces = kept->call.kind == CallKind::kAllReduce || kept->call.kind == CallKind::kReduceScatter;
    const bool is_mean = reduces && kept->call.op == ReduceOp::kMean;
    if (is_mean && total > 0) kept->shares = mean_shares(kept->weights);
    if (is_mean && total == 0) {
      fail_locked({Code::kInvalidArgument,
                   fmt::format("collective: {}: the weights of all {} ranks are 0", kept->call.describe(), size_)});
    }
    kept->chunks = (work_elements(kept->call, size_) + kChunk - 1) / kChunk;
    kept->complete = kept->chunks == 0 && !failure_;
    changed_.notify_all();
  }
  return kept;
}

bool InProcessGroup::work(Meeting& meeting, std::unique_lock<std::mutex>& lock) {
  if (failure_ || meeting.arrived < size_ || meeting.chunks_taken == meeting.chunks) return false;
  const std::size_t begin = meeting.chunks_taken++ * kChunk;
  const std::size_t end = std::min(begin + kChunk, work_elements(meeting.call, size_));
  lock.unlock();
  do_chunk(meeting, begin, end);
  lock.lock();
  ++meeting.chunks_done;
  meeting.complete = meeting.chunks_done == meeting.chunks;
  if (!meeting.busy()) changed_.notify_all();
  return true;
}

Status InProcessGroup::answer(const Meeting& meeting) const {
  if (meeting.complete) return {};
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
  fail_locked({Code::kDeadlineExceeded,
               fmt::format("collective: {} (call {} of epoch {}, {:.1f} s)",
                           meeting.arrived < size_ ? verdict_on(meeting, waiter)
                                                   : fmt::format("{}: {} of {} chunks done", activity_of(meeting.call),
                                                                 meeting.chunks_done, meeting.chunks),
                           meeting.place.index, epoch_, seconds(std::chrono::steady_clock::now() - waiter.called))});
}

Status InProcessGroup::wait(Meeting& meeting, const Waiter& waiter) {
  std::unique_lock lock(mutex_);
  Activity* const activity = activities_[static_cast<std::size_t>(waiter.rank)];
  std::optional<std::string> before;  // what this rank was at, once it says that it waits
  while (!done(meeting)) {
    if (work(meeting, lock)) continue;
    if (activity && !before) {
      before = activity->now().what;
      activity->enter(activity_of(meeting.call));
    }
    // A thread that is at work on a chunk is back soon and must be waited for, deadline or not.
    const auto may_go_on = [&] {
      return done(meeting) || (!failure_ && meeting.arrived == size_ && meeting.chunks_taken < meeting.chunks);
    };
    if (failure_) {
      changed_.wait(lock, may_go_on);
      continue;
    }
    const TimePoint until =
        meeting.has_verdict ? waiter.deadline : std::min(waiter.deadline, waiter.called + kVerdictAfter);
    if (changed_.wait_until(lock, until, [&] { return may_go_on() || failure_; })) continue;
    if (std::chrono::steady_clock::now() >= waiter.deadline) {
      fail_late(meeting, waiter);
    } else if (!std::exchange(meeting.has_verdict, true) && meeting.arrived < size_) {
      log::warn("{}", verdict_on(meeting, waiter));
    }
  }
  if (before) activity->enter(*before);
  return answer(meeting);
}

std::optional<Status> InProcessGroup::poll(Meeting& meeting, const Waiter& waiter) {
  std::unique_lock lock(mutex_);
  if (!done(meeting) && !work(meeting, lock) && std::chrono::steady_clock::now() >= waiter.deadline) {
    fail_late(meeting, waiter);
  }
  if (!done(meeting)) return std::nullopt;
  return answer(meeting);
}

void InProcessGroup::finish(int rank) {
  const std::lock_guard lock(mutex_);
  --unfinished_[static_cast<std::size_t>(rank)];
}

void InProcessGroup::fail(Error error) {
  const std::lock_guard lock(mutex_);
  fail_locked(std::move(error));
}

void InProcessGroup::fail_locked(Error error) {
  if (!failure_) failure_ = std::move(error);
  meetings_.clear();  // nobody can arrive any more; those who are there hold their own
  changed_.notify_all();
}

}  // namespace troupe::collectives
