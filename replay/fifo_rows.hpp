#pragma once
// Tables whose items leave in the order in which they came: there keys are consecutive and lie in consecutive slots,
// modulo capacity, so that neither needs to be looked up, and somebody else can keep the rows as they come. Used by
// both kinds of tables.
#include <cstdint>
#include <span>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/replay/rate_limiter.hpp>
#include <troupe/replay/row_store.hpp>
#include <troupe/replay/table.hpp>
#include <troupe/replay/table_image.hpp>

namespace troupe::replay {

/// Which key lies in which slot.
class KeyRing {
 public:
  explicit KeyRing(std::int64_t capacity) : capacity_(static_cast<Key>(capacity)) {}

  /// `key` lies in slot 0, and its successors in those that follow.
  void start(Key key) { shift_ = (capacity_ - key % capacity_) % capacity_; }
  Slot slot_of(Key key) const { return static_cast<Slot>((key + shift_) % capacity_); }
  /// The key in a slot, of those from `oldest` on.
  Key key_in(Slot slot, Key oldest) const { return oldest + (slot + capacity_ - slot_of(oldest)) % capacity_; }

 private:
  Key capacity_;
  Key shift_ = 0;
};

/// Table::recover()'s counts: `first` is the next key. Errors: kInvalidArgument when items are there that it does not
/// follow; nothing changed.
Status go_on_from(const TableOptions& options, RateLimiter& limiter, Key first, std::int64_t samples);

/// Table::restore_priorities(), of a table with this head.
Status take_priorities(Table& table, const ImageHead& head, std::span<const std::vector<std::byte>> chunks);

/// A table as it shall become: rows in slots 0..head.items-1.
struct FifoRows {
  RowStore rows;
  ImageHead head;
  std::int64_t missing = 0;  ///< items without rows
};

/// What Table::restore_items() makes of an image and the rows for it, for a table with this head.
/// Errors: as restore_items().
Result<FifoRows> collect_rows(const TableOptions& options, const ImageHead& head,
                              std::span<const std::vector<std::byte>> chunks, const RowSource& source);

}  // namespace troupe::replay
