#include <troupe/actors/roles/input_feed.hpp>

#include <algorithm>
#include <utility>

namespace troupe::actors {
namespace {

class InputFeed final : public Feed {
 public:
  explicit InputFeed(std::unique_ptr<learner::Replica> replica) : replica_(std::move(replica)) {}

  learner::Replica& replica() override { return *replica_; }

  Status take(RoleContext& context, learner::Replicator& replicator, std::int64_t most, bool) override {
    const std::int64_t wanted = std::min<std::int64_t>(most, replicator.steps_per_launch());
    waiting_.clear();
    while (replicator.staged() < wanted) {
      const Status staged = replicator.stage();
      if (staged.ok()) continue;
      if (staged.error().code != Code::kUnavailable) return staged;
      waiting_ = staged.error().message;
      context.wake_after(kInputPatience);
      return {};
    }
    return {};
  }

  void report(const learner::Replicator& replicator, Report& report) const override {
    for (Scalar& gauge : replicator.input().gauges()) report.gauges.push_back(std::move(gauge));
  }
  std::string waiting_for() const override { return waiting_; }

 private:
  const std::unique_ptr<learner::Replica> replica_;
  std::string waiting_;
};

}  // namespace

FeedSpec input_feed(MakeReplica make) {
  return {.make = [make = std::move(make)](const RoleIdentity&) -> Result<std::unique_ptr<Feed>> {
    TROUPE_ASSIGN(auto replica, make());
    return {std::make_unique<InputFeed>(std::move(replica))};
  }};
}

}  // namespace troupe::actors
