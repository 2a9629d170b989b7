#pragma once
// Generated images on their way into a discriminator: a queue that knows which version of the generator made each, and
// an input pipeline that puts as many of them beside real images. Used by the discriminator's role
// (actors/roles/split_gan.hpp), which fills it from a channel.
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include <troupe/core/error.hpp>
#include <troupe/core/staleness_histogram.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/learner/replicate/replica.hpp>

namespace troupe::learner::sngan {

/// Rows in the order in which they came. As long as the generator's newest version is more than max_staleness above
/// that of a row, the row is not given out but dropped. Not thread-safe. Holds what it was given, no copies, so it is
/// for the caller to add no more than is wanted.
class Fakes {
 public:
  Fakes(Signature columns, std::int64_t max_staleness) : columns_(std::move(columns)), max_staleness_(max_staleness) {}

  const Signature& columns() const { return columns_; }
  /// What the generator has come to. May go down: one that was restarted goes on from its last checkpoint.
  void set_newest(std::int64_t version);
  /// owner: keeps the rows' memory. Errors: kShapeMismatch, naming the column.
  Status add(const BatchView& rows, std::int64_t version, std::shared_ptr<const void> owner);
  std::int64_t rows() const { return rows_; }
  /// Moves the oldest to.rows rows there; there are as many. to: of columns().
  void take(const MutableBatchView& to);

  std::int64_t dropped() const { return dropped_; }
  const StalenessHistogram& staleness() const { return staleness_; }  ///< of the rows that were given out

 private:
  struct Part {
    BatchView rows;
    std::int64_t version = 0;
    std::shared_ptr<const void> owner;
    std::int64_t first = 0;  ///< row that was not taken yet
  };
  /// 0 for what a generator made before it was restarted and has yet to come to again.
  std::int64_t staleness_of(std::int64_t version) const;
  void drop_stale();

  Signature columns_;
  std::int64_t max_staleness_;
  std::int64_t newest_ = 0;
  std::deque<Part> parts_;
  std::int64_t rows_ = 0;
  std::int64_t dropped_ = 0;
  StalenessHistogram staleness_;
};

/// Adds to the queue what has come in since. Returns whether there was anything.
using MoreFakes = std::function<Result<bool>()>;

/// Batches of `real` with the columns of `fakes` behind its own, row by row. `fakes` outlives the pipeline; `more` is
/// asked while they do not suffice, and not beyond. next() is kUnavailable until there are enough.
std::unique_ptr<InputPipeline> with_fakes(std::unique_ptr<InputPipeline> real, Fakes& fakes, MoreFakes more);

}  // namespace troupe::learner::sngan
