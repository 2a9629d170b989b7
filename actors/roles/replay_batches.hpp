#pragma once
// The batches that the shards of replay send to a learner, taken as those of one table: chosen among the shards by
// their mass, weighted by importance, and answered with new priorities. Used by whoever learns from replay: a trainer's
// feed (actors/roles/replay_feed) and a learner of the user's own (actors/roles/own_learner).
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include <troupe/actors/runtime/role.hpp>
#include <troupe/actors/runtime/topology.hpp>
#include <troupe/messages/batch.hpp>
#include <troupe/messages/reports.hpp>
#include <troupe/replay/shards.hpp>

namespace troupe::actors {

struct ReplayBatchesOptions {
  std::size_t shards = 1;    ///< instances of replay behind `batches` and `priorities`
  bool prioritised = false;  ///< importance weights, and priorities back
  /// Of the importance weights (Schaul et al. 2016, section 3.4).
  double importance_exponent = 0.4;
};

struct ReplayBatch {
  messages::SampledBatchView batch;
  std::size_t shard = 0;
};

/// w = (1 / (N P))^exponent / max w of rows drawn with these probabilities from `items` items, N.
void importance_weights(std::span<const double> probabilities, double items, double exponent,
                        std::span<float> weights);

/// Ports: in batches (stream, Batch); out priorities (stream, Priorities).
class ReplayBatches {
 public:
  static std::vector<Port> inlets() { return {{"batches", "Batch"}}; }
  static std::vector<Port> outlets() { return {{"priorities", "Priorities"}}; }

  explicit ReplayBatches(const ReplayBatchesOptions& options);

  /// The next batch, if one waits that may be taken: a shard that has no room for priorities gives none. One that makes
  /// no sense is dropped, counted, and its sender named.
  Result<std::optional<ReplayBatch>> next(RoleContext& context);
  /// Its columns; when prioritised, with the importance weights behind them as "weight", which lie in `weights`.
  BatchView columns(const ReplayBatch& of, std::vector<float>& weights);
  /// Keeps new priorities, one for each row of the batch, for send_priorities().
  void answer(const ReplayBatch& of, std::span<const double> priorities);
  /// Sends what shards have room for, one message for each.
  Status send_priorities(RoleContext& context);

  void save(RoleState& state) const;
  Status restore(const RoleState& state);

 private:
  /// The shard whose batch is next.
  std::optional<std::size_t> next_shard(RoleContext& context);

  const ReplayBatchesOptions options_;
  replay::ShardMix mix_;
  Signature weighted_signature_;
  std::vector<messages::PriorityUpdate> priorities_;  ///< by shard: not yet sent
};

}  // namespace troupe::actors
