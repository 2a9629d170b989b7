#include <troupe/collectives/group_communicator.hpp>

#include <optional>
#include <utility>

#include <troupe/collectives/detail/group_core.hpp>

namespace troupe::collectives {
namespace {

using detail::GroupCore;
using detail::PendingCall;

class GroupWork final : public Work {
 public:
  /// One that has failed at the call.
  explicit GroupWork(Error error) : answer_(std::move(error)) {}
  GroupWork(std::shared_ptr<GroupCore> core, std::shared_ptr<PendingCall> pending)
      : core_(std::move(core)), pending_(std::move(pending)) {}
  ~GroupWork() override {
    if (!answer_) core_->drop(*pending_);
  }

  bool done() override {
    if (!answer_ && core_->done(*pending_)) keep();
    return answer_.has_value();
  }
  Status wait() override {
    if (!answer_) {
      (void)core_->wait(*pending_);
      keep();
    }
    return *answer_;
  }

 private:
  void keep() {
    answer_ = pending_->answer;
    core_->answered();
  }

  std::shared_ptr<GroupCore> core_;
  std::shared_ptr<PendingCall> pending_;
  std::optional<Status> answer_;
};

class GroupCommunicator final : public Communicator {
 public:
  GroupCommunicator(Peers& peers, std::uint32_t own_id, const GroupCommunicatorOptions& options)
      : core_(std::make_shared<GroupCore>(peers, own_id, options.deterministic, options.scheduler)) {}
  ~GroupCommunicator() override { core_->close(); }

  const GroupView& view() const override { return core_->view(); }
  Activity& activity() override { return core_->activity(); }

  std::unique_ptr<Work> all_reduce(std::span<float> values, ReduceOp op, CallOptions options) override {
    if (auto* local = core_->all_local()) return local->all_reduce(values, op, std::move(options));
    return call({.kind = CallKind::kAllReduce, .count = values.size(), .op = op}, std::move(options), values, values);
  }
  std::unique_ptr<Work> all_gather(std::span<const float> in, std::span<float> out, CallOptions options) override {
    if (auto* local = core_->all_local()) return local->all_gather(in, out, std::move(options));
    return call({.kind = CallKind::kAllGather, .count = in.size()}, std::move(options), in, out);
  }
  std::unique_ptr<Work> reduce_scatter(std::span<const float> in, std::span<float> out, ReduceOp op,
                                       CallOptions options) override {
    if (auto* local = core_->all_local()) return local->reduce_scatter(in, out, op, std::move(options));
    return call({.kind = CallKind::kReduceScatter, .count = out.size(), .op = op}, std::move(options), in, out);
  }
  std::unique_ptr<Work> broadcast(std::span<float> values, int root, CallOptions options) override {
    if (auto* local = core_->all_local()) return local->broadcast(values, root, std::move(options));
    return call({.kind = CallKind::kBroadcast, .count = values.size(), .root = root}, std::move(options), values,
                values);
  }
  std::unique_ptr<Work> barrier(CallOptions options) override {
    if (auto* local = core_->all_local()) return local->barrier(std::move(options));
    return call({.kind = CallKind::kBarrier}, std::move(options), {}, {});
  }

  void abort(std::string_view reason, std::optional<std::uint64_t> through) override { core_->abort(reason, through); }
  std::optional<Error> failure() const override { return core_->failure(); }
  Status reform(const GroupView& view, Duration timeout) override { return core_->reform(view, timeout); }

 private:
  std::unique_ptr<Work> call(Call call, CallOptions options, std::span<const float> in, std::span<float> out) {
    call.name = options.name;
    call.shape = options.shape;
    call.wire = options.wire;
    call.dtype = options.dtype;
    auto pending = core_->make(std::move(call), options, {in, out});
    if (!pending.ok()) return std::make_unique<GroupWork>(pending.error());
    return std::make_unique<GroupWork>(core_, std::move(*pending));
  }

  std::shared_ptr<GroupCore> core_;  // shared with works that outlive this
};

}  // namespace

std::unique_ptr<Communicator> make_group_communicator(Peers& peers, std::uint32_t own_id,
                                                      GroupCommunicatorOptions options) {
  return std::make_unique<GroupCommunicator>(peers, own_id, options);
}

}  // namespace troupe::collectives
