#pragma once
// Replay's store: rows of a fixed signature, chosen by a sampler, evicted by a remover and paced by a rate limiter.
// Third station of the flow env -> actor -> replay -> learner -> parameter store -> actor. Semantics are Reverb's
// (reverb/cc/table.h), but a Table is passive: one owner calls it, nothing blocks; an operation that the limiter does
// not admit now says who waits for what, and the owner (actors/replay_actor) tries again after the next change.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/replay/rate_limiter.hpp>
#include <troupe/replay/selector.hpp>

namespace troupe::replay {

/// Identity of an item: unique in a table over its life, never reused, increasing with insertion.
using Key = std::uint64_t;

struct TableOptions {
  std::string name = "replay";
  Signature signature;             ///< columns of an item
  std::int64_t max_items = 0;      ///< the remover evicts before an insert would pass it; > 0
  std::int64_t max_bytes = 0;      ///< 0: no bound besides max_items
  SelectorOptions sampler;         ///< which item a sample draws
  SelectorOptions remover;         ///< which item goes when the table is full; FIFO by default
  RateLimiterOptions limiter;
  std::int64_t max_times_sampled = 0;  ///< an item leaves after this many samples; 0: never
  std::uint64_t seed = 0;
};

/// What a sampled row was, besides its columns.
struct SampledItem {
  Key key = 0;
  double probability = 0;  ///< with which the sampler drew it, for importance weights
  double priority = 0;
  std::int32_t times_sampled = 0;
  std::int64_t table_items = 0;  ///< table size when drawn
};

struct TableInfo {
  std::int64_t items = 0;
  std::int64_t bytes = 0;
  std::int64_t inserts = 0;  ///< since the table was made, surviving checkpoints
  std::int64_t samples = 0;
  std::int64_t evictions = 0;
};

/// Deterministic for a seed and a sequence of calls. Not thread-safe.
class Table {
 public:
  /// Errors: kInvalidArgument naming the option.
  static Result<std::unique_ptr<Table>> make(TableOptions options);
  virtual ~Table() = default;

  virtual const TableOptions& options() const = 0;
  virtual TableInfo info() const = 0;

  /// Number of rows that the limiter admits now, at most `wanted`.
  virtual std::int64_t insertable(std::int64_t wanted) const = 0;
  virtual std::int64_t sampleable(std::int64_t wanted) const = 0;
  /// Why the next insert or sample must wait: "sample waits: 812 more inserts until min_size 1000"; empty if it need not.
  virtual std::string insert_blocker() const = 0;
  virtual std::string sample_blocker() const = 0;

  /// Copies all rows in, evicting as needed. priorities: one a row, finite and >= 0, or empty for 1.0 each.
  /// Returns the key of the first row; the others follow it. All or nothing.
  /// Errors: kShapeMismatch; kInvalidArgument (priority, naming the row); kUnavailable (limiter).
  virtual Result<Key> insert(const BatchView& rows, std::span<const double> priorities) = 0;

  /// Draws out.rows rows with replacement into `out`, items[i] describing row i. All or nothing.
  /// Errors: kShapeMismatch; kUnavailable (limiter or empty table).
  virtual Status sample(const MutableBatchView& out, std::span<SampledItem> items) = 0;

  /// Sets priorities; keys that have been evicted meanwhile are skipped and counted.
  /// Returns how many were unknown. Errors: kInvalidArgument (length, or a priority not finite or < 0): nothing changed.
  virtual Result<std::int64_t> update_priorities(std::span<const Key> keys, std::span<const double> priorities) = 0;

  /// One consistent image of items, counters, selector and generator state: restoring it continues bit for bit.
  virtual std::vector<std::vector<std::byte>> save() const = 0;
  /// Errors: kCorrupt or kShapeMismatch, and the table is as it was.
  virtual Status restore(std::span<const std::vector<std::byte>> chunks) = 0;
};

}  // namespace troupe::replay
