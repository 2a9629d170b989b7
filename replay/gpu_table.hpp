#pragma once
// A Table in the memory of a GPU, for a learner that is there too: rows, priorities and the sum tree lie on the device,
// inserts stream in while it computes, and batches and new priorities never come to the host. The host keeps what it
// decides by: keys, the limiter's counts and the random numbers. For everybody else it is a table like the other one,
// with the same semantics, draws and images, so that a run can move between devices; there only the bytes travel.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <troupe/core/stacks.hpp>
#include <troupe/gpu/gpu.hpp>
#include <troupe/replay/fifo_rows.hpp>
#include <troupe/replay/gpu_items.hpp>
#include <troupe/replay/table.hpp>

namespace troupe::replay {

/// Device memory for each column of the table's signature, [rows, column] without padding, aligned to the column's
/// elements (to 16 bytes is best); null: nobody wants it.
using DeviceColumns = std::span<void* const>;

/// Draws are those of Table::make()'s table bit for bit, for the same seed and calls, where priority_exponent is 0 or 1
/// or the GPU's pow() rounds as the host's; but when all priorities are 0, numbers that Rng::below() would draw again
/// for exact uniformity, one in 2^64 / items, are taken as they are.
///
/// Which items there are must be known without asking the GPU, so they leave in the order in which they came: the
/// remover is fifo and max_times_sampled 0.
///
/// Everything that Table has waits for the GPU where it gives something back: sample(), update_priorities(), read(),
/// save(), and mass() of a prioritised table. insert() copies into pinned memory and waits only when that is full of
/// rows for which launches under way must end first.
///
/// Rows are whole here, also those with columns that are stacks; split ones are joined as they come.
///
/// Errors: also Gpu's, of all calls. After a GPU has failed save() and save_items() give no chunks, which restore()
/// refuses, and every later call tells the error.
class GpuTable final : public Table {
 public:
  /// All memory is allocated here. Errors: kInvalidArgument naming the option; kUnavailable: too little memory, saying
  /// how much is wanted and which max_items would fit; Gpu's.
  static Result<std::unique_ptr<GpuTable>> make(TableOptions options, std::shared_ptr<const gpu::Gpu> gpu);

  // ---- the learner's path: steps on the GPU that draw and update without the host ----
  //
  // Before each launch, begin_launch(); in it, once a step, enqueue_draw() and then enqueue_update(), which put work on
  // the stream and nothing else. A CUDA graph of these two may be launched again and again, with a begin_launch() of
  // the same steps and rows before each time. No other call may come between begin_launch() and the end of what belongs
  // to it being put on the stream. The table outlives that work, and the stream does until end_launches().

  /// Draws of one launch, steps * rows, are at most kMostLaunchDraws. Counts them; moves new rows into their slots;
  /// sends the random numbers. Costs a few calls of CUDA; waits, if at all, for the launch before the last.
  /// Errors: kInvalidArgument (steps, rows), kUnavailable (sample_blocker(steps * rows) says for what), Gpu's.
  Status begin_launch(std::int64_t steps, std::int64_t rows, TroupeCudaStream* stream);

  /// Draws this step's rows, copies their columns and counts them in times_sampled. Can be captured.
  /// weights: [rows], or null: importance weights w_i = (1 / (N P_i))^importance_exponent / max_k w_k (Schaul et al.
  /// 2016, 3.4) with N, the items when drawn, read from device memory. Two launches of kernels. Errors:
  /// kInvalidArgument (a step that begin_launch() did not announce, columns), Gpu's.
  Status enqueue_draw(std::int64_t step, DeviceColumns to, float* weights, double importance_exponent,
                      TroupeCudaStream* stream);

  /// Sets the priorities of the rows that this step drew, unless control is given and says skip. Where a row was drawn
  /// twice, the last one counts. What is negative or no finite number becomes 0: such a row is drawn no more until it
  /// has another priority. Can be captured. One launch of a kernel. priorities: [rows], control: device memory.
  Status enqueue_update(std::int64_t step, const float* priorities, const TroupeCudaControl* control,
                        TroupeCudaStream* stream);

  /// The last launch's stream is used no more; what is on it already still comes first. Does not wait. Errors: Gpu's.
  Status end_launches();

  // ---- Table ----

  const TableOptions& options() const override { return options_; }
  TableInfo info() const override;
  Result<double> mass() const override;
  std::int64_t insertable(std::int64_t wanted) const override { return limiter_.insertable(wanted); }
  std::int64_t sampleable(std::int64_t wanted) const override { return items() == 0 ? 0 : limiter_.sampleable(wanted); }
  std::string insert_blocker(std::int64_t rows) const override;
  std::string sample_blocker(std::int64_t rows) const override;
  Result<Key> insert(const BatchView& batch, std::span<const double> priorities) override;
  Status sample(const MutableBatchView& out, std::span<SampledItem> items) override;
  Status draw(std::span<SampledItem> items) override;
  Result<std::int64_t> update_priorities(std::span<const Key> keys, std::span<const double> priorities) override;
  Result<std::int64_t> erase(std::span<const Key> keys) override;
  Status reset() override;
  std::vector<std::vector<std::byte>> save() const override;
  Status restore(std::span<const std::vector<std::byte>> chunks) override;
  Status recover(Key first, const BatchView& batch, std::span<const double> priorities, std::int64_t samples) override;
  Status read(Key first, const MutableBatchView& out, std::span<double> priorities) const override;
  std::vector<std::vector<std::byte>> save_items() const override;
  Result<std::int64_t> restore_items(std::span<const std::vector<std::byte>> chunks, const RowSource& rows) override;
  Status restore_priorities(std::span<const std::vector<std::byte>> chunks) override;

 private:
  GpuTable(TableOptions options, std::int64_t capacity, RateLimiter limiter, std::unique_ptr<GpuItems> device);

  std::int64_t items() const { return limiter_.counts().inserts - limiter_.counts().deletes; }
  /// Keys count inserts.
  Key next_key() const { return static_cast<Key>(limiter_.counts().inserts); }
  Key oldest() const { return static_cast<Key>(limiter_.counts().deletes); }
  ImageHead head() const;
  void fill(std::span<std::uint64_t> numbers);
  Status check_step(std::int64_t step) const;
  Status insert_rows(const BatchView& batch, std::span<const double> priorities);
  Status adopt(const FifoRows& image);

  const TableOptions options_;
  const Stacks stacks_;
  const std::int64_t capacity_;
  RateLimiter limiter_;
  Rng rng_;
  KeyRing ring_;
  std::unique_ptr<GpuItems> device_;
  std::int64_t steps_ = 0, rows_ = 0;  ///< of the last begin_launch()
  std::vector<std::uint64_t> numbers_;
};

}  // namespace troupe::replay
