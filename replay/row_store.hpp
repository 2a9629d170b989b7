#pragma once
// The memory behind a table: one row a slot, all columns of a row side by side, so that drawing an item touches a few
// consecutive cache lines instead of one or more in every column. What the table knows of an item (key, priority, times
// sampled) heads its row for the same reason. Columns that are stacks are split: the row has the places of its planes,
// which it shares with other rows (replay/plane_store.hpp). Memory comes in chunks, as slots are first used.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <troupe/core/stacks.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/replay/plane_store.hpp>
#include <troupe/replay/selector.hpp>
#include <troupe/replay/slot_memory.hpp>

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

  /// Memory that one row takes: header, packed columns, and padding to whole cache lines where that is cheap. Of its
  /// planes one of each pool counts, as if all others were there before.
  static std::size_t expected_row_bytes(const Signature& signature);
  /// The same where stacks are not split.
  static std::size_t whole_row_bytes(const Signature& signature);

  const Stacks& stacks() const { return *stacks_; }

  /// Makes the slot's memory exist, without planes; the header is reset. Slots are added in order.
  void add(Slot slot);

  ItemHeader& header(Slot slot) { return *reinterpret_cast<ItemHeader*>(row(slot)); }
  const ItemHeader& header(Slot slot) const { return *reinterpret_cast<const ItemHeader*>(row(slot)); }
  /// The packed columns, row_bytes(stacks().split()) bytes; of stacks the places in planes().
  std::span<const std::byte> payload(Slot slot) const { return {row(slot) + sizeof(ItemHeader), payload_bytes_}; }
  /// Of each pool of stacks().
  const std::vector<PlaneStore>& planes() const { return planes_; }
  std::vector<PlaneStore>& planes() { return planes_; }

  /// Rows of one batch, whole or split, on their way in. A plane of the batch is looked for once, and stays at least
  /// until the writer has gone.
  class Writer {
   public:
    /// The batch outlives the writer.
    Writer(RowStore& store, const BatchView& batch);
    ~Writer();
    Writer(const Writer&) = delete;
    Writer& operator=(const Writer&) = delete;
    /// Copies row `index` of the batch into the slot, which has no planes. The header stays.
    void write(Slot slot, std::int64_t index);

   private:
    RowStore& store_;
    const BatchView& batch_;
    BatchView split_;                                     // the same rows, where there are stacks
    std::unique_ptr<StackSplitter> whole_;                // of a batch that is whole
    std::vector<std::vector<PlaneStore::Place>> places_;  // of the batch's planes, once they are looked for
  };

  /// Copies a split row, packed, into the slot, which has no planes. Its places stand for those in `places`, of each
  /// pool, whose planes have one user more then. The header stays.
  void write_packed(Slot slot, std::span<const std::byte> packed,
                    std::span<const std::vector<PlaneStore::Place>> places);

  /// Copies the slot's row, whole, to row `index` of a batch.
  void read(Slot slot, const MutableBatchView& batch, std::int64_t index) const;
  /// The same, packed: row_bytes(stacks().whole()) bytes.
  void read_packed(Slot slot, std::span<std::byte> to) const;
  /// The slot's row has no planes any more: whoever leaves a slot, or finds another row there, says so before.
  void release(Slot slot) {
    if (!planes_.empty()) drop_planes(slot);
  }
  /// Copies header and columns, and moves the planes. `to` has none.
  void move(Slot from, Slot to);

  /// Asks for the row's first cache lines ahead of a read() or header().
  void prefetch(Slot slot) const {
    const std::byte* start = row(slot);
    for (std::size_t offset = 0; offset < prefetch_bytes_; offset += kLine) __builtin_prefetch(start + offset);
  }
  /// The same of its planes, once the row itself is there.
  void prefetch_planes(Slot slot) const {
    if (!planes_.empty()) ask_for_planes(slot);
  }

  /// Memory of so many rows with the planes of all.
  std::int64_t bytes(std::int64_t rows) const {
    std::int64_t sum = rows * static_cast<std::int64_t>(stride_);
    for (const PlaneStore& pool : planes_) sum += pool.bytes();
    return sum;
  }
  /// What one more row may take at most.
  std::int64_t most_row_bytes() const;

 private:
  static constexpr std::size_t kLine = 64;
  struct Column {
    std::size_t offset;  // from the row's start
    std::size_t bytes;
  };

  std::byte* row(Slot slot) { return memory_.at(slot); }
  const std::byte* row(Slot slot) const { return memory_.at(slot); }
  PlaneStore::Place place(Slot slot, const Stacks::Column& column, std::size_t k) const;
  void drop_planes(Slot slot);
  void ask_for_planes(Slot slot) const;
  void join(Slot slot, const Stacks::Column& column, std::byte* to) const;

  std::unique_ptr<const Stacks> stacks_;
  std::vector<Column> columns_;
  std::size_t payload_bytes_;
  std::size_t stride_;
  std::size_t prefetch_bytes_;
  SlotMemory memory_;
  std::vector<PlaneStore> planes_;
};

}  // namespace troupe::replay
