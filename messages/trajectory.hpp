#pragma once
// What an env actor sends to replay: rows of a signature (one a transition or step, as its adder makes them), with
// where they come from and which parameters acted. Columns that are stacks (TensorSpec::stack) travel split: each plane
// of a message is in it once. Schema: trajectory.capnp.
#include <cstdint>
#include <memory>
#include <span>

#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/messages/frame.hpp>

namespace troupe::messages {

struct TrajectoryInfo {
  std::uint32_t producer = 0;           ///< index of the env actor in its role
  std::uint32_t incarnation = 0;        ///< how often it has been restarted; sequence starts again at 0 with each
  std::uint64_t sequence = 0;           ///< counts this producer's trajectories: gaps and duplicates show
  std::int64_t parameters_version = 0;  ///< learner step whose parameters chose the last action
  std::int64_t env_steps = 0;           ///< environment steps taken since the producer's previous trajectory
};

/// A validated trajectory. Holds its frame, so the spans stay valid as long as the view or a copy of it lives.
class TrajectoryView {
 public:
  const TrajectoryInfo& info() const;
  /// Columns inside the frame; each starts at a multiple of 8 bytes (of 64 when a TrajectoryBuilder wrote it). Rows of
  /// a signature with stacks are split: they are Stacks(signature()).split()'s, and their planes are there.
  const BatchView& rows() const;
  /// Of whole rows.
  const Signature& signature() const;
  /// One a row, finite and >= 0; empty: the table gives every row 1.
  std::span<const double> priorities() const;
  const Frame& frame() const { return frame_; }

 private:
  friend Result<TrajectoryView> read_trajectory(const Frame&);
  TrajectoryView(Frame frame, const Parsed* parsed) : frame_(std::move(frame)), parsed_(parsed) {}
  Frame frame_;
  const Parsed* parsed_;
};

/// O(1) for a frame that was built or already read in this process; otherwise validates everything that the view shows:
/// one segment, Cap'n Proto limits, specs, exact column sizes, planes that are there, finite floats, finite priorities
/// >= 0.
/// Errors: kCorrupt (malformed bytes), kInvalidArgument (another kind of message, or a value out of its bounds).
Result<TrajectoryView> read_trajectory(const Frame& frame);

struct TrajectoryOptions {
  std::shared_ptr<const Signature> signature;  ///< shared, so that a frame does not copy it
  std::int64_t max_rows = 0;                   ///< room for so many rows is allocated at once
  bool priorities = false;                     ///< carry one priority a row
};

/// Lays the message out in one pooled frame at once; the caller then writes columns in place. Where some are stacks,
/// the caller writes whole rows beside it, which finish() splits.
class TrajectoryBuilder {
 public:
  /// Errors: the pool's; kInvalidArgument on a signature beyond the limits of columns.hpp.
  static Result<TrajectoryBuilder> make(FramePool& pool, const TrajectoryOptions& options);
  TrajectoryBuilder(TrajectoryBuilder&&) noexcept;
  TrajectoryBuilder& operator=(TrajectoryBuilder&&) noexcept;
  ~TrajectoryBuilder();

  /// max_rows rows, not cleared. The first rows that finish() names must have been written.
  const MutableBatchView& rows() const;
  /// max_rows entries, or empty.
  std::span<double> priorities();

  /// Freezes the first `rows` rows (0..max_rows). The frame needs no validation when it is read in this process.
  Frame finish(const TrajectoryInfo& info, std::int64_t rows) &&;

 private:
  struct Impl;
  explicit TrajectoryBuilder(std::unique_ptr<Impl> impl);
  static BatchView write_split(Impl& impl, std::int64_t rows);
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe::messages
