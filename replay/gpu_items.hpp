#pragma once
// The device's half of a GpuTable: rows, priorities and the sum tree in a GPU's memory, and how they get there and
// back. It knows slots, not keys; GpuTable decides what is inserted, drawn and admitted.
//
// Rows come in through two halves of pinned staging memory: a copy stream takes them over, some 64 KiB at a time, while
// launches run, and settle() moves them to their slots, one after the other modulo capacity, in the order of a stream
// that is about to draw. Events keep the order; the host waits in append(), when both halves are full of rows that
// launches under way still keep from their slots, and wherever results go to the host.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/gpu/gpu.hpp>
#include <troupe/gpu/handle.hpp>
#include <troupe/replay/gpu_memory_plan.hpp>
#include <troupe/replay/table.hpp>

namespace troupe::replay {

/// One thread at a time. Errors are Gpu's, and most of them for good.
class GpuItems {
 public:
  /// Errors: kUnavailable, which says how much memory was wanted and how many items would fit.
  static Result<std::unique_ptr<GpuItems>> make(std::shared_ptr<const gpu::Gpu> gpu, const TableOptions& options,
                                                std::int64_t capacity);
  ~GpuItems();
  GpuItems(const GpuItems&) = delete;
  GpuItems& operator=(const GpuItems&) = delete;

  std::size_t stride() const { return plan_.stride; }
  /// The table's own stream, on which everything that the host asks for runs.
  TroupeCudaStream* stream() const { return stream_; }

  // ---- in ----

  /// The rows take the next slots. priorities: one each, or empty for 1.
  Status append(const BatchView& batch, std::span<const double> priorities);
  Status append(std::span<const std::byte> packed, double priority, std::int32_t times_sampled);
  /// No item is left; the next row takes slot 0.
  Status clear();
  /// The next row takes this slot, which is where a full table's oldest item is.
  Status go_on_in(Slot slot);
  /// What is begun on `stream` from now on finds all that was asked for before, on whatever stream, and the rows that
  /// were appended in their slots. Does not wait. `stream` lives until settle() has been called for another one.
  Status settle(TroupeCudaStream* stream);

  // ---- a launch: draws 0..count-1, count <= kMostLaunchDraws ----

  /// Pinned memory for so many numbers. Waits until the launch before the last has taken its own.
  Result<std::span<std::uint64_t>> numbers(std::int64_t count);
  Status send_numbers(std::int64_t count, TroupeCudaStream* stream);
  /// Of draws first..first+rows-1: what TroupeCudaApi::replay_draw and replay_update do. columns: of the signature's,
  /// null where nobody wants one. Can be captured.
  Status draw(std::int64_t first, std::int64_t rows, std::span<void* const> columns, float* weights,
              double importance_exponent, TroupeCudaStream* stream) const;
  Status update(std::int64_t first, std::int64_t rows, const float* priorities, const TroupeCudaControl* control,
                TroupeCudaStream* stream) const;

  // ---- for the host: after settle(stream()); these wait for the GPU ----

  struct Drawn {
    std::span<const Slot> slots;
    std::span<const double> probabilities, priorities;
    std::span<const std::int32_t> times_sampled;
  };
  /// How many rows a call of sample() or fetch() gives at most.
  std::int64_t host_rows() const { return plan_.host_rows; }
  /// Draws with these numbers into rows first.. of `out`. The result is there until the next call.
  Result<Drawn> sample(std::span<const std::uint64_t> numbers, const MutableBatchView& out, std::int64_t first);
  /// Sets the priorities of slots that are different from each other.
  Status update(std::span<const Slot> slots, std::span<const double> priorities);
  struct Fetched {
    std::span<const std::byte> rows;  ///< stride() bytes each; empty where they were not wanted
    std::span<const double> priorities;
    std::span<const std::int32_t> times_sampled;
  };
  /// The items in slots first..first+count-1. The result is there until the next call.
  Result<Fetched> fetch(Slot first, std::int64_t count, bool rows);
  /// Copies row `index` of them to row `to` of `out`.
  void unpack(const Fetched& fetched, std::int64_t index, const MutableBatchView& out, std::int64_t to) const;
  /// The sum of all weights; 0 without a tree.
  Result<double> total();

 private:
  GpuItems(std::shared_ptr<const gpu::Gpu> gpu, const TableOptions& options, std::int64_t capacity, GpuMemoryPlan plan);

  Status check(int error, std::string_view what) const { return gpu_->check(error, what); }
  template <typename T>
  T* device(std::size_t offset) const {
    return reinterpret_cast<T*>(device_.get() + offset);
  }
  template <typename T>
  T* host(std::size_t offset) const {
    return reinterpret_cast<T*>(host_.get() + offset);
  }
  Status copy(void* to, const void* from, std::size_t bytes, TroupeCudaStream* stream) const;
  Status open();
  Status make_room();
  Status send_rows(std::size_t at_least);
  Status move_rows(TroupeCudaStream* stream);
  Status synchronise() const;
  TroupeCudaDraws draws(std::int64_t first) const;

  std::shared_ptr<const gpu::Gpu> gpu_;
  const Signature signature_;
  const std::int64_t capacity_;
  const GpuMemoryPlan plan_;
  gpu::GpuMemory device_, host_;
  TroupeCudaReplay view_{};
  gpu::GpuStream stream_, copy_stream_;
  TroupeCudaStream* last_stream_ = nullptr;   ///< the one that worked on the items last
  gpu::GpuEvent ordered_;                     ///< of last_stream_, for another one to wait for
  std::array<gpu::GpuEvent, 2> copied_;       ///< a half's rows are on the GPU
  std::array<gpu::GpuEvent, 2> moved_;        ///< and from there in their slots
  std::array<gpu::GpuEvent, 2> taken_;        ///< a launch's numbers are on the GPU
  std::size_t half_ = 0;                      ///< that is filled now
  std::int64_t filled_ = 0, sent_ = 0;        ///< rows of it; those that the copy stream has been given
  std::int64_t next_slot_ = 0, present_ = 0;  ///< once all that is filled has been moved, less filled_
  std::size_t numbers_half_ = 0;
};

}  // namespace troupe::replay
