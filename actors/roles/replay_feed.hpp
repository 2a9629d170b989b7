#pragma once
// Gives a trainer its steps from batches that replay sends (actors/roles/replay_batches): stages them for the launch
// that comes next, and answers those of the launch that has ended.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include <troupe/actors/roles/feed.hpp>
#include <troupe/actors/roles/replay_batches.hpp>

namespace troupe::actors {

struct ReplayFeedOptions {
  /// The replica, whose input has `signature`: the columns of replay's items and, when it is prioritised, the
  /// importance weights behind them as "weight".
  MakeFedReplica make_replica;
  Signature signature;
  ReplayBatchesOptions batches;
  /// The step's output that is each row's new priority, >= 0; see priorities_after().
  std::string priority_output = "td_error";
};

/// The rows' new priorities after step `step` of a launch, those of its output `output`. When the step was skipped, a
/// row whose value is not finite gets 0, so that it is not drawn again.
std::vector<double> priorities_after(learner::Replicator& replicator, const std::string& output, int step);

/// Ports: those of ReplayBatches. At most the batches of two launches wait.
FeedSpec replay_feed(ReplayFeedOptions options);

class ReplayFeed final : public Feed {
 public:
  static Result<std::unique_ptr<ReplayFeed>> make(const ReplayFeedOptions& options);

  learner::Replica& replica() override { return *replica_; }
  Status take(RoleContext& context, learner::Replicator& replicator, std::int64_t most, bool first) override;
  Result<std::int64_t> begin(learner::Replicator& replicator, std::int64_t most) override;
  Status done(learner::Replicator& replicator) override;
  BatchView last_batch(const learner::Replicator&) const override { return last_batch_; }
  void save(RoleState& state) const override;
  Status restore(const RoleState& state) override;

 private:
  explicit ReplayFeed(const ReplayFeedOptions& options);

  const ReplayFeedOptions options_;
  learner::BatchSlot slot_;
  std::unique_ptr<learner::Replica> replica_;
  ReplayBatches batches_;
  std::vector<float> weights_;     ///< of the batch taken last
  std::deque<ReplayBatch> taken_;  ///< the first under_way_ ones are in the launch, the others wait for the next
  std::size_t under_way_ = 0;
  BatchView last_batch_;  ///< of the batch taken last
};

}  // namespace troupe::actors
