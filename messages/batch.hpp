#pragma once
// What replay sends to a learner: sampled rows with what the sampler knows about each, for importance weights, priority
// updates and the staleness histogram. Schema: batch.capnp.
#include <cstdint>
#include <memory>
#include <span>

#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/messages/frame.hpp>

namespace troupe::messages {

struct SampledBatchInfo {
  std::uint64_t sequence = 0;    ///< counts the batches that this replay has sent
  std::int64_t table_items = 0;  ///< items in the table when the batch was drawn
  double table_mass = 0;         ///< what the sampler's weights summed to then: probability = weight / mass
  /// As replay::TableInfo has them, when the batch was drawn.
  std::int64_t table_bytes = 0, table_inserts = 0, table_samples = 0, table_evictions = 0;
};

/// Per-row facts, each `rows` long. Borrowed from a frame.
template <typename U64, typename F64, typename I32, typename I64>
struct SampledRows {
  std::span<U64> keys;                 ///< item identities, for priority updates
  std::span<F64> probabilities;        ///< with which the sampler drew the row; > 0
  std::span<F64> priorities;           ///< finite, >= 0
  std::span<I32> times_sampled;        ///< including this time
  std::span<I64> parameters_versions;  ///< version that produced the row; -1 where it is not known
  std::span<I32> lengths;              ///< of rows that are sequences, [longest, ...]: steps of each; else empty
};

/// A validated batch. Holds its frame.
class SampledBatchView {
 public:
  using Rows = SampledRows<const std::uint64_t, const double, const std::int32_t, const std::int64_t>;

  const SampledBatchInfo& info() const;
  const BatchView& columns() const;
  const Rows& rows() const;
  const Frame& frame() const { return frame_; }

 private:
  friend Result<SampledBatchView> read_batch(const Frame&);
  SampledBatchView(Frame frame, const Parsed* parsed) : frame_(std::move(frame)), parsed_(parsed) {}
  Frame frame_;
  const Parsed* parsed_;
};

/// O(1) for a frame that was built or already read in this process; otherwise validates all of it once.
/// Errors: kCorrupt (malformed bytes), kInvalidArgument (another kind of message, or a value out of its bounds).
Result<SampledBatchView> read_batch(const Frame& frame);

/// Lays the message out in one pooled frame: Table::sample() gathers straight into columns().
class SampledBatchBuilder {
 public:
  using Rows = SampledRows<std::uint64_t, double, std::int32_t, std::int64_t>;

  /// Errors: the pool's; kInvalidArgument on a signature beyond the limits of columns.hpp.
  /// sequences: rows have lengths, and the signature's columns are all [longest, ...].
  static Result<SampledBatchBuilder> make(FramePool& pool, std::shared_ptr<const Signature> signature,
                                          std::int64_t rows, bool sequences = false);
  SampledBatchBuilder(SampledBatchBuilder&&) noexcept;
  SampledBatchBuilder& operator=(SampledBatchBuilder&&) noexcept;
  ~SampledBatchBuilder();

  /// To be written completely by the caller; not cleared.
  const MutableBatchView& columns() const;
  /// Start as 0, parameters_versions as -1. Lengths must be written: 1 .. longest.
  const Rows& rows() const;

  Frame finish(const SampledBatchInfo& info) &&;

 private:
  struct Impl;
  explicit SampledBatchBuilder(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe::messages
