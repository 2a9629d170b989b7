#pragma once
// Replay's store: rows of a fixed signature, chosen by a sampler, evicted by a remover and paced by a rate limiter.
// Third station of the flow env -> actor -> replay -> learner -> parameter store -> actor. Semantics are Reverb's
// (reverb/cc/table.h), but a Table is passive: one owner calls it, nothing blocks; an operation that the limiter does
// not admit now says who waits for what, and the owner (actors/roles/replay_actor) tries again after the next change.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/replay/rate_limiter.hpp>
#include <troupe/replay/selector.hpp>
#include <troupe/replay/table_extension.hpp>

namespace troupe::replay {

/// Columns that are stacks are kept split (core/stacks.hpp): a plane that several items have is in memory once.
struct TableOptions {
  std::string name = "replay";
  Signature signature;         ///< columns of an item
  std::int64_t max_items = 0;  ///< an insert beyond it makes the remover choose who leaves, as in Reverb among all
                               ///< items and the new one; > 0
  std::int64_t max_bytes = 0;  ///< bound on the rows' memory, for which fewer items are kept; 0: max_items alone. How
                               ///< many fit shows as they come where rows share planes
  SelectorOptions sampler;     ///< which item a sample draws
  SelectorOptions remover = {.kind = SelectorKind::kFifo};  ///< which item goes when the table is full
  RateLimiterOptions limiter;
  std::int64_t max_times_sampled = 0;  ///< an item leaves after this many samples; 0: never
  std::uint64_t seed = 0;
  /// Told of each item, in this order; not of a table on a GPU, whose items the host does not see.
  std::vector<std::shared_ptr<TableExtension>> extensions = {};
};

/// What a sampled row was, besides its columns.
struct SampledItem {
  Key key = 0;
  double probability = 0;  ///< with which the sampler drew it, for importance weights
  double priority = 0;
  std::int32_t times_sampled = 0;  ///< this draw included
  std::int64_t table_items = 0;    ///< table size when drawn
};

struct TableInfo {
  std::int64_t items = 0;
  std::int64_t bytes = 0;    ///< memory of the items' rows and their planes, padding included
  std::int64_t inserts = 0;  ///< since the table was made, surviving checkpoints
  std::int64_t samples = 0;
  std::int64_t evictions = 0;  ///< by the remover or by max_times_sampled
};

/// Gets consecutive rows, whole or split, the first of which has this key.
using RowTaker = std::function<Status(Key first, const BatchView& rows)>;
using RowSource = std::function<Status(const RowTaker& take)>;

/// Deterministic for a seed and a sequence of calls. Not thread-safe.
class Table {
 public:
  /// Errors: kInvalidArgument naming the option.
  static Result<std::unique_ptr<Table>> make(TableOptions options);
  virtual ~Table() = default;

  virtual const TableOptions& options() const = 0;
  virtual TableInfo info() const = 0;
  /// Of the sampler, see Selector::mass(). Errors: those of a table's device.
  virtual Result<double> mass() const = 0;

  /// Number of rows that may be inserted or sampled in one call now, at most `wanted`.
  virtual std::int64_t insertable(std::int64_t wanted) const = 0;
  virtual std::int64_t sampleable(std::int64_t wanted) const = 0;
  /// Why a call with `rows` rows must wait: "table "replay": sample of 256 waits: 812 more items (...)"; empty if it
  /// need not.
  virtual std::string insert_blocker(std::int64_t rows) const = 0;
  virtual std::string sample_blocker(std::int64_t rows) const = 0;

  /// Copies all rows in, whole or split ones, evicting as needed. priorities: one for each row, 0..kMaxPriority, or
  /// empty for 1.0 each. Returns the key of the first row; the others' follow it by one each. All or nothing. Cost: one
  /// copy of the rows, plus O(log items) a row for a prioritised selector. No allocation once full. Errors:
  /// kShapeMismatch; kInvalidArgument (no rows, a priority, or a plane that is not there); kUnavailable (insert_blocker
  /// says for what).
  virtual Result<Key> insert(const BatchView& rows, std::span<const double> priorities) = 0;

  /// Draws out.rows rows with replacement into `out`, items[i] describing row i. All or nothing; the limiter admits the
  /// batch as one operation. Items that reach max_times_sampled leave at once, also within the batch.
  /// Errors: kShapeMismatch; kInvalidArgument (no rows, or items' length); kUnavailable (sample_blocker says for what).
  virtual Status sample(const MutableBatchView& out, std::span<SampledItem> items) = 0;
  /// sample() of as many rows as there are items, without the rows, for who has them by their keys already.
  /// Errors: as sample(); kInvalidArgument of a table on a GPU, whose draws the host does not see.
  virtual Status draw(std::span<SampledItem> items) = 0;

  /// Sets priorities; keys that have been evicted meanwhile are skipped and counted.
  /// Returns how many were unknown. Errors: kInvalidArgument (length, or a priority): nothing changed.
  virtual Result<std::int64_t> update_priorities(std::span<const Key> keys, std::span<const double> priorities) = 0;

  /// Items leave; the limiter counts them as those that the remover chose (Reverb's mutate_priorities with deletes).
  /// Returns how many of the keys were unknown. Not of a table whose rows a journal keeps, which knows no such records.
  /// Errors: kInvalidArgument for a table on a GPU, whose items leave in their order.
  virtual Result<std::int64_t> erase(std::span<const Key> keys) = 0;
  /// All items leave, and limiter and counters begin anew; keys go on, so that those of before are unknown. Reverb's
  /// reset. Not with a journal. Errors: as erase().
  virtual Status reset() = 0;

  /// One consistent image of items, counters and generator state: restoring it continues bit for bit (but see Selector
  /// on heaps). Chunks are
  /// self-describing, ordered, little-endian and at most 16 MiB each (or one row, if that is more); whoever stores them
  /// adds checksums.
  virtual std::vector<std::vector<std::byte>> save() const = 0;
  /// Takes an image made by a table with the same signature, capacity, selectors and max_times_sampled; limiter options
  /// and seed may differ. Errors: kCorrupt or kShapeMismatch, and the table is as it was.
  virtual Status restore(std::span<const std::vector<std::byte>> chunks) = 0;

  // With a journal (replay/journal.hpp) that keeps the rows:

  /// Takes back rows of an earlier process, past the limiter, whose counts go on from `samples` and the last key. Into
  /// a table without items with any first key, else with the keys that follow.
  /// Errors: as insert() without kUnavailable; kInvalidArgument (a key that does not follow, or a table whose items do
  /// not leave in the order in which they came): nothing changed.
  virtual Status recover(Key first, const BatchView& rows, std::span<const double> priorities,
                         std::int64_t samples) = 0;
  /// Copies the items first .. first + out.rows - 1 out. Errors: kShapeMismatch, kInvalidArgument, kNotFound.
  virtual Status read(Key first, const MutableBatchView& out, std::span<double> priorities) const = 0;
  /// save() without the rows.
  virtual std::vector<std::vector<std::byte>> save_items() const = 0;
  /// Takes an image of save_items(). `rows` is called once and hands over the rows, in the order of their keys, some
  /// more than needed if it likes. Items whose rows do not come (the oldest or the newest ones) are gone; when all
  /// come, the table goes on bit for bit. Returns how many are gone. Errors: as restore(), and what `rows` returns.
  virtual Result<std::int64_t> restore_items(std::span<const std::vector<std::byte>> chunks, const RowSource& rows) = 0;
  /// Takes of an image of save_items() the priorities alone, of items that are in this table: for rows that a journal
  /// gave back as they were inserted. Errors: as restore().
  virtual Status restore_priorities(std::span<const std::vector<std::byte>> chunks) = 0;
};

}  // namespace troupe::replay
