#include <troupe/collectives/shared_memory.hpp>

#include <fmt/format.h>

#include <mutex>
#include <optional>
#include <utility>

#include <troupe/collectives/detail/calling_communicator.hpp>
#include <troupe/collectives/detail/shared_calls.hpp>

namespace troupe::collectives {
namespace {

using detail::SharedCall;
using detail::SharedCalls;
using detail::SharedRegion;
using detail::TimePoint;

class SharedWork final : public Work {
 public:
  /// One that has failed at the call.
  explicit SharedWork(Error error) : answer_(std::move(error)) {}
  SharedWork(std::shared_ptr<SharedCalls> calls, SharedCall call) : calls_(std::move(calls)), call_(std::move(call)) {
    if (const Status added = calls_->add(call_); !added.ok()) answer_ = added;
  }

  ~SharedWork() override {
    if (is_over()) return;
    calls_->fail(
        {Code::kCancelled, fmt::format("collective: {} was dropped before it was done", call_.call.describe())});
    (void)wait();  // which is over at once, and touches the buffers no more
  }

  bool done() override {
    if (!is_over()) {
      calls_->poll(call_);
      if (call_.answer) finish();
    }
    return is_over();
  }

  Status wait() override {
    if (!is_over()) {
      calls_->wait(call_);
      finish();
    }
    return *answer_;
  }

 private:
  bool is_over() const { return answer_.has_value(); }
  void finish() {
    answer_ = *call_.answer;
    calls_->finish();
  }

  std::optional<Status> answer_;
  std::shared_ptr<SharedCalls> calls_;
  SharedCall call_;
};

class SharedMemoryCommunicator final : public detail::CallingCommunicator {
 public:
  SharedMemoryCommunicator(TicketExchange exchange, Activity* activity)
      : exchange_(std::move(exchange)), activity_(activity ? *activity : own_activity_) {}
  ~SharedMemoryCommunicator() override { leave(); }

  const GroupView& view() const override { return view_; }
  Activity& activity() override { return activity_; }

  void abort(std::string_view reason, std::optional<std::uint64_t> through) override {
    const std::lock_guard lock(mutex_);
    if (through && (!aborted_ || aborted_->first < *through)) aborted_.emplace(*through, reason);
    if (region_ && view_.epoch <= through.value_or(view_.epoch)) region_->fail(abortion(view_.rank, reason));
  }

  std::optional<Error> failure() const override { return region_ ? region_->failure() : std::nullopt; }

  Status reform(const GroupView& view, Duration timeout) override {
    if (region_ && view.epoch <= view_.epoch) {
      return Error{Code::kInvalidArgument,
                   fmt::format("reform: epoch {} is not newer than {}", view.epoch, view_.epoch)};
    }
    TROUPE_TRY(check_view(view));
    if (view.size > detail::kMaxSharedRanks) {
      return Error{Code::kInvalidArgument,
                   fmt::format("reform: {} ranks, expected at most {}", view.size, detail::kMaxSharedRanks)};
    }
    const TimePoint deadline = std::chrono::steady_clock::now() + timeout;
    leave();
    TROUPE_ASSIGN(std::shared_ptr<SharedRegion> region, meet(view, deadline));
    if (region->lines(view.rank).taken.exchange(1) != 0) {
      return Error{Code::kAlreadyExists,
                   fmt::format("group of epoch {}: rank {} has been taken", view.epoch, view.rank)};
    }
    activity_.show_in(&region->lines(view.rank).activity);
    {
      const std::lock_guard lock(mutex_);
      region_ = region;
      view_ = view;
      calls_ = std::make_shared<SharedCalls>(region, view, activity_);
      if (aborted_ && view.epoch <= aborted_->first) region->fail(abortion(view.rank, aborted_->second));
    }
    return calls_->await_all(deadline);
  }

 private:
  static Error abortion(int rank, std::string_view reason) {
    return {Code::kCancelled, fmt::format("collective: rank {} aborted: {}", rank, reason)};
  }

  /// The memory of the view's group.
  Result<std::shared_ptr<SharedRegion>> meet(const GroupView& view, TimePoint deadline) {
    if (view.rank > 0) {
      TROUPE_ASSIGN(const std::string ticket, exchange_(view, {}, deadline));
      return SharedRegion::open(ticket, view);
    }
    TROUPE_ASSIGN(std::shared_ptr<SharedRegion> region, SharedRegion::create(view));
    if (view.size > 1) TROUPE_TRY(exchange_(view, region->ticket(), deadline));
    return region;
  }

  /// The others must not wait for somebody who has gone.
  void leave() {
    activity_.show_in(nullptr);
    if (region_) {
      region_->fail({Code::kCancelled, fmt::format("collective: rank {} has left epoch {}", view_.rank, view_.epoch)});
    }
  }

  std::unique_ptr<Work> call(Call call, const CallOptions& options, std::span<const float> in,
                             std::span<float> out) override {
    if (!calls_) return std::make_unique<SharedWork>(no_group_yet(call));
    if (const Status status = check_arguments(call, options, view_, in.size(), out.size()); !status.ok()) {
      region_->fail(status.error());
      return std::make_unique<SharedWork>(*region_->failure());
    }
    const TimePoint now = std::chrono::steady_clock::now();
    return std::make_unique<SharedWork>(calls_, SharedCall{.call = std::move(call),
                                                           .in = in.data(),
                                                           .out = out.data(),
                                                           .weight = options.weight,
                                                           .called = now,
                                                           .deadline = now + options.timeout});
  }

  const TicketExchange exchange_;
  Activity own_activity_;
  Activity& activity_;
  std::mutex mutex_;  // guards region_, view_ and aborted_ against abort(), which may come from another thread
  std::shared_ptr<SharedRegion> region_;
  GroupView view_{.size = 0};
  std::optional<std::pair<std::uint64_t, std::string>> aborted_;  // through which epoch, and why
  std::shared_ptr<SharedCalls> calls_;
};

}  // namespace

std::unique_ptr<Communicator> make_shared_memory_communicator(TicketExchange exchange, Activity* activity) {
  return std::make_unique<SharedMemoryCommunicator>(std::move(exchange), activity);
}

}  // namespace troupe::collectives
