#include <troupe/collectives/in_process.hpp>

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <utility>

#include <troupe/collectives/detail/calling_communicator.hpp>
#include <troupe/collectives/detail/in_process_group.hpp>

namespace troupe::collectives {

using detail::Meeting;

struct InProcessHub::State {
  const InProcessAlgorithm algorithm;
  CooperativeScheduler* const scheduler;
  std::mutex mutex;
  // A group lives as long as one of its members does; its epoch can then be used again by nobody but latecomers, who
  // wait for the others until their deadline.
  std::map<std::uint64_t, std::weak_ptr<InProcessGroup>> groups;

  /// The group of this epoch, made if need be. Errors: kShapeMismatch (another size), which fails the group.
  Result<std::shared_ptr<InProcessGroup>> group(const GroupView& view);
};

Result<std::shared_ptr<InProcessGroup>> InProcessHub::State::group(const GroupView& view) {
  const std::lock_guard lock(mutex);
  std::erase_if(groups, [](const auto& entry) { return entry.second.expired(); });
  std::shared_ptr<InProcessGroup> group = groups[view.epoch].lock();
  if (!group) {
    group = std::make_shared<InProcessGroup>(view, algorithm, scheduler);
    groups[view.epoch] = group;
  }
  if (group->size() != view.size) {
    Error error{Code::kShapeMismatch, fmt::format("group of epoch {}: rank {} says that it has {} ranks, others say {}",
                                                  view.epoch, view.rank, view.size, group->size())};
    group->fail(error);
    return error;
  }
  return group;
}

namespace {

class InProcessWork final : public Work {
 public:
  /// One that has failed at the call.
  explicit InProcessWork(Error error) : answer_(std::move(error)) {}

  InProcessWork(std::shared_ptr<InProcessGroup> group, Meeting& meeting, const Waiter& waiter)
      : group_(std::move(group)), meeting_(&meeting), waiter_(waiter) {}

  ~InProcessWork() override {
    if (answer_) return;
    group_->fail({Code::kCancelled, fmt::format("collective: rank {} dropped {} before it was done", waiter_.rank,
                                                meeting_->call.describe())});
    (void)wait();  // until nobody touches the buffers; its answer interests nobody
  }

  bool done() override {
    if (!answer_) {
      if (auto answer = group_->poll(*meeting_, waiter_)) keep(std::move(*answer));
    }
    return answer_.has_value();
  }

  Status wait() override {
    if (!answer_) keep(group_->wait(*meeting_, waiter_));
    return *answer_;
  }

 private:
  void keep(Status answer) {
    answer_ = std::move(answer);
    group_->finish(*meeting_, waiter_.rank);
  }

  std::shared_ptr<InProcessGroup> group_;
  Meeting* meeting_ = nullptr;  // the group's
  Waiter waiter_;
  std::optional<Status> answer_;
};

}  // namespace

class InProcessCommunicator final : public detail::CallingCommunicator {
 public:
  explicit InProcessCommunicator(InProcessHub::State& hub) : hub_(hub) {}

  ~InProcessCommunicator() override { leave(); }

  const GroupView& view() const override { return view_; }
  Activity& activity() override { return activity_; }

  void abort(std::string_view reason, std::optional<std::uint64_t> through) override {
    const std::lock_guard lock(mutex_);
    if (through && (!aborted_ || aborted_->first < *through)) aborted_.emplace(*through, reason);
    if (group_ && view_.epoch <= through.value_or(view_.epoch)) {
      group_->fail({Code::kCancelled, fmt::format("collective: rank {} aborted: {}", view_.rank, reason)});
    }
  }

  std::optional<Error> failure() const override { return group_ ? group_->failure() : std::nullopt; }

  Status reform(const GroupView& view, Duration timeout) override {
    if (group_ && view.epoch <= view_.epoch) {
      return Error{Code::kInvalidArgument,
                   fmt::format("reform: epoch {} is not newer than {}", view.epoch, view_.epoch)};
    }
    TROUPE_TRY(check_view(view));
    leave();
    TROUPE_ASSIGN(std::shared_ptr<InProcessGroup> group, hub_.group(view));
    TROUPE_TRY(group->enter(view.rank, activity_));
    {
      const std::lock_guard lock(mutex_);
      group_ = group;
      view_ = view;
      calls_ = 0;
      if (aborted_ && view.epoch <= aborted_->first) {
        group_->fail({Code::kCancelled, fmt::format("collective: rank {} aborted: {}", view.rank, aborted_->second)});
      }
    }
    return group->await_all(timeout);
  }

 private:
  void leave() {
    if (group_) group_->leave(view_.rank);
  }

  std::unique_ptr<Work> call(Call call, const CallOptions& options, std::span<const float> in,
                             std::span<float> out) override {
    if (!group_) return std::make_unique<InProcessWork>(no_group_yet(call));
    if (const Status status = check_arguments(call, options, view_, in.size(), out.size()); !status.ok()) {
      group_->fail(status.error());
      return std::make_unique<InProcessWork>(status.error());
    }
    auto meeting = group_->arrive({.rank = view_.rank,
                                   .index = calls_,
                                   .call = std::move(call),
                                   .input = in.data(),
                                   .output = out.data(),
                                   .weight = options.weight});
    if (!meeting.ok()) return std::make_unique<InProcessWork>(meeting.error());
    ++calls_;
    return std::make_unique<InProcessWork>(
        group_, **meeting,
        Waiter{.rank = view_.rank, .called = std::chrono::steady_clock::now(), .timeout = options.timeout});
  }

  InProcessHub::State& hub_;
  std::mutex mutex_;  // guards group_ and view_ against abort(), which may come from another thread
  std::shared_ptr<InProcessGroup> group_;
  GroupView view_{.size = 0};
  std::uint64_t calls_ = 0;                                       // made in this group
  std::optional<std::pair<std::uint64_t, std::string>> aborted_;  // through which epoch, and why
  Activity activity_;
};

InProcessHub::InProcessHub(InProcessAlgorithm algorithm, CooperativeScheduler* scheduler)
    : state_(new State{.algorithm = algorithm, .scheduler = scheduler}) {}
InProcessHub::~InProcessHub() = default;

std::unique_ptr<Communicator> InProcessHub::make() { return std::make_unique<InProcessCommunicator>(*state_); }

Result<std::unique_ptr<Communicator>> InProcessHub::join(const GroupView& view, Duration timeout) {
  std::unique_ptr<Communicator> communicator = make();
  TROUPE_TRY(communicator->reform(view, timeout));
  return communicator;
}

}  // namespace troupe::collectives
