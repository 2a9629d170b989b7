#pragma once
// Several tables that together behave as one: how its limits are split over them, and from which of them the next
// batch is to be taken. Passive: the replay role's instances are the tables, the learner role holds the ShardMix.
//
// Each shard draws whole batches from its own items, and the reader takes batches from the shards in proportion to
// their mass, the sum of the sampler's weights over their items (uniform: the number of items; prioritised: the sum of
// priority^exponent). Why this is sampling from one table:
//   - The probability is the same. P(item) = P(its shard) * P(item | shard) = M_s / M * w / M_s = w / M, which does not
//     depend on how items are spread. ShardMix::share() is M_s / M, so importance weights are those of one table too.
//   - The variance is not greater, over the long run. Shards are not drawn at random but by largest deficit: after n
//     batches a shard has given n * M_s / M of them to within one or two. That is stratified sampling with
//     proportional allocation, of which the variance is that within the strata alone.
//   - Within one batch rows come from one shard, so batches are not independent draws over all items: the batch's mean
//     is that of its shard's items, which differs from the mean over all by about sigma / sqrt(items of the shard) when
//     items are dealt out to the shards in turn, as producers do. Against the batch's own noise, sigma / sqrt(batch
//     rows), that is sqrt(256 / 100'000) or 5 % at 100'000 items a shard, and its sign alternates from batch to batch.
// What is gained is that no batch is copied together, and that a shard that is slow, starved or down holds nobody up:
// its turn goes to the next one, and is made up for later within a bound.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <troupe/replay/table.hpp>

namespace troupe::replay {

/// The options of table `index` of `count`, of `whole`'s capacity, minimum size and limiter. Limits in items are split
/// to whole numbers that add up, the first shards taking one more each; max_bytes is rounded down; the limiter's window
/// is split evenly around samples_per_insert * (the shard's minimum), so that the windows add up to the whole one. No
/// limit falls below 1. What differs from one table: each shard evicts its own oldest item, begins to give samples when
/// it has its own minimum, and when its inserts stop, its samples stop after what its window admits.
TableOptions shard_options(const TableOptions& whole, std::int64_t index, std::int64_t count);

/// Decides whose batch is next. Deterministic; not thread-safe.
class ShardMix {
 public:
  /// All that it remembers of a shard.
  struct Shard {
    std::int64_t items = 0;
    double mass = 0;
    double deficit = 0;  ///< batches by which it is behind its share; -kMostDeficit .. kMostDeficit
  };
  /// A shard that gave nothing for long is owed no more than this, so that the batches after its return are not all
  /// its own.
  static constexpr double kMostDeficit = 16;

  explicit ShardMix(std::size_t shards) : shards_(shards) {}

  /// What the newest known batch of a shard says about its table. Before the first, a shard's share is 0.
  void observe(std::size_t shard, std::int64_t items, double mass);

  /// Of the shards with available[shard], the one furthest behind its share; it is counted as taken. Empty when none is
  /// available.
  std::optional<std::size_t> pick(const std::vector<bool>& available);

  /// Over all shards.
  std::int64_t items() const;
  /// The shard's part of the whole mass: an item's probability over all shards is that in its table times this.
  double share(std::size_t shard) const;

  /// For checkpoints.
  std::span<Shard> shards() { return shards_; }
  std::span<const Shard> shards() const { return shards_; }

 private:
  std::vector<Shard> shards_;
};

}  // namespace troupe::replay
