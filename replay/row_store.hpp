#pragma once
// The memory behind a table: one row a slot, all columns of a row side by side, so that drawing an item touches a few
// consecutive cache lines instead of one or more in every column. What the table knows of an item (key, priority, times
// sampled) heads its row for the same reason. Memory comes in chunks, as slots are first used.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <troupe/core/tensor.hpp>
#include <troupe/replay/selector.hpp>

namespace troupe::replay {

struct ItemHeader {
  Key key = 0;
  double priority = 0;
  std::int32_t times_sampled = 0;
};

/// Rows of one signature in slots 0..capacity-1. Checks nothing: shapes and slots are the table's business.
class RowStore {
 public:
  RowStore(const Signature& signature, std::int64_t capacity);

  /// Memory that one row takes: header, packed columns, and padding to whole cache lines where that is cheap.
  static std::size_t row_stride(const Signature& signature);

  /// Makes the slot's memory exist; the header is reset. Slots are added in order.
  void add(Slot slot);

  ItemHeader& header(Slot slot) { return *reinterpret_cast<ItemHeader*>(row(slot)); }
  const ItemHeader& header(Slot slot) const { return *reinterpret_cast<const ItemHeader*>(row(slot)); }
  /// The packed columns, row_bytes(signature) bytes.
  std::span<std::byte> payload(Slot slot) { return {row(slot) + sizeof(ItemHeader), payload_bytes_}; }
  std::span<const std::byte> payload(Slot slot) const { return {row(slot) + sizeof(ItemHeader), payload_bytes_}; }

  /// Copies row `index` of a batch into the slot, or back. The header stays.
  void write(Slot slot, const BatchView& batch, std::int64_t index);
  void read(Slot slot, const MutableBatchView& batch, std::int64_t index) const;
  /// Copies header and columns.
  void move(Slot from, Slot to);

  /// Asks for the row's first cache lines ahead of a read() or header().
  void prefetch(Slot slot) const {
    const std::byte* start = row(slot);
    for (std::size_t offset = 0; offset < prefetch_bytes_; offset += kLine) __builtin_prefetch(start + offset);
  }

  std::size_t stride() const { return stride_; }

 private:
  static constexpr std::size_t kLine = 64;
  struct Free {
    void operator()(std::byte* memory) const;
  };
  struct Column {
    std::size_t offset;  // from the row's start
    std::size_t bytes;
  };

  std::byte* row(Slot slot) { return chunks_[slot >> chunk_shift_].get() + (slot & chunk_mask_) * stride_; }
  const std::byte* row(Slot slot) const { return chunks_[slot >> chunk_shift_].get() + (slot & chunk_mask_) * stride_; }

  std::vector<Column> columns_;
  std::size_t payload_bytes_;
  std::size_t stride_;
  std::size_t prefetch_bytes_;
  int chunk_shift_;  // rows in a chunk: a power of two
  Slot chunk_mask_;
  std::vector<std::unique_ptr<std::byte[], Free>> chunks_;
};

}  // namespace troupe::replay
