#pragma once
// What happens to the items of a table, told to whoever keeps something beside it: counts, an index, steps that items
// refer to. Reverb's TableExtension (reverb/cc/table_extensions/interface.h). Given to a table by TableOptions.
#include <cstddef>
#include <cstdint>
#include <span>

#include <troupe/replay/selector.hpp>

namespace troupe::replay {

/// An item as it is now.
struct TableItem {
  Key key = 0;
  double priority = 0;
  std::int32_t times_sampled = 0;
  std::span<const std::byte> columns;  ///< packed, of stacks the places of their planes; valid during the call
};

/// Called by the table's owner within its calls, once for each item, when what it says has happened; so an extension
/// may not call the table. An item that is not kept, as the remover chose the new one itself, is never heard of. When a
/// table is restored, all that were there are deleted() and all that come are inserted().
class TableExtension {
 public:
  virtual ~TableExtension() = default;
  virtual void inserted(const TableItem& item) { (void)item; }
  /// times_sampled: this draw included. An item that leaves by its last draw is deleted() behind it.
  virtual void sampled(const TableItem& item) { (void)item; }
  /// Its priority is another one; also if it is the same.
  virtual void updated(const TableItem& item) { (void)item; }
  /// By the remover, by max_times_sampled, or because the table's owner says so.
  virtual void deleted(const TableItem& item) { (void)item; }
};

}  // namespace troupe::replay
