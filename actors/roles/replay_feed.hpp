#pragma once
// Gives a trainer its steps from batches that replay sends. The batches are chosen among replay's shards by their mass,
// weighted by importance, and answered with new priorities when replay is prioritised.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/actors/roles/feed.hpp>
#include <troupe/messages/batch.hpp>
#include <troupe/messages/reports.hpp>
#include <troupe/replay/shards.hpp>

namespace troupe::actors {

struct ReplayFeedOptions {
  /// The replica, whose input has `signature`: the columns of replay's items and, when it is prioritised, the
  /// importance weights behind them as "weight".
  MakeFedReplica make_replica;
  Signature signature;
  std::size_t shards = 1;    ///< instances of replay behind `batches` and `priorities`
  bool prioritised = false;  ///< importance weights, and priorities back
  /// The step's output that is each row's new priority, >= 0. When a step is skipped, a row whose value is not finite
  /// gets 0, so that it is not drawn again.
  std::string priority_output = "td_error";
  /// Exponent of the importance weights w = (1 / (N P))^beta / max w (Schaul et al. 2016, section 3.4).
  double importance_exponent = 0.4;
};

/// Ports: in batches (stream, Batch); out priorities (stream, Priorities), one message for each shard that gave batches
/// to a launch. A shard that has no room for them gives no batches either, so at most those of two launches wait.
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

  struct Taken {
    messages::SampledBatchView batch;
    std::size_t shard = 0;
  };

  /// The shard whose batch is next, if a batch waits that may be taken.
  Result<std::optional<std::size_t>> next_shard(RoleContext& context);
  /// The batch's columns with the importance weights behind them. share: of its shard, see replay::ShardMix.
  BatchView with_weights(const messages::SampledBatchView& batch, double share);
  Status send_priorities(RoleContext& context);

  const ReplayFeedOptions options_;
  learner::BatchSlot slot_;
  std::unique_ptr<learner::Replica> replica_;
  replay::ShardMix mix_;
  Signature weighted_signature_;
  std::vector<float> weights_;  ///< of the batch taken last
  std::deque<Taken> taken_;     ///< the first under_way_ ones are in the launch, the others wait for the next
  std::size_t under_way_ = 0;
  BatchView last_batch_;                              ///< of the batch taken last
  std::vector<messages::PriorityUpdate> priorities_;  ///< by shard: not yet sent
};

}  // namespace troupe::actors
