#include <troupe/replay/fifo_rows.hpp>

#include <fmt/format.h>

#include <algorithm>

#include <troupe/replay/slot_map.hpp>
#include <troupe/replay/table_checks.hpp>

namespace troupe::replay {

Status go_on_from(const TableOptions& options, RateLimiter& limiter, Key first, std::int64_t samples) {
  const RateLimiterCounts counts = limiter.counts();
  const bool empty = counts.inserts == counts.deletes;
  if (!empty && first != static_cast<Key>(counts.inserts)) {
    return Error{Code::kInvalidArgument, fmt::format("recover into table \"{}\": first key is {}, expected {}",
                                                     options.name, first, counts.inserts)};
  }
  const auto inserts = static_cast<std::int64_t>(first);
  return limiter.set_counts(
      {.inserts = inserts, .samples = std::max(samples, counts.samples), .deletes = empty ? inserts : counts.deletes});
}

Status take_priorities(Table& table, const ImageHead& head, std::span<const std::vector<std::byte>> chunks) {
  TROUPE_ASSIGN(const ItemsImage image, read_items(chunks, head));
  std::vector<Key> keys;
  std::vector<double> priorities;
  for (const ItemHeader& item : image.items) {
    keys.push_back(item.key);
    priorities.push_back(item.priority);
  }
  TROUPE_TRY(table.update_priorities(keys, priorities));
  return {};
}

Result<FifoRows> collect_rows(const TableOptions& options, const ImageHead& head,
                              std::span<const std::vector<std::byte>> chunks, const RowSource& source) {
  TROUPE_ASSIGN(ItemsImage image, read_items(chunks, head));
  const std::size_t count = image.items.size();
  RowStore rows(options.signature, head.capacity);
  for (std::size_t slot = 0; slot < count; ++slot) {
    rows.add(static_cast<Slot>(slot));
    rows.header(static_cast<Slot>(slot)) = image.items[slot];
  }
  SlotMap slots;
  for (std::size_t slot = 0; slot < count; ++slot) slots.put(image.items[slot].key, static_cast<Slot>(slot));
  const auto end = static_cast<Key>(image.head.counts.inserts);
  Key first_taken = end - count;
  Key end_taken = first_taken;
  TROUPE_TRY(source([&](Key first, const BatchView& batch) -> Status {
    TROUPE_TRY(detail::check_columns(options, batch, "restore"));
    RowStore::Writer writer(rows, batch);
    for (std::int64_t i = 0; i < batch.rows; ++i) {
      const Key key = first + static_cast<Key>(i);
      if (key < end - count || key >= end) continue;
      if (end_taken == first_taken) first_taken = end_taken = key;
      if (key != end_taken) {
        return Error{Code::kCorrupt, fmt::format("restore table \"{}\": got the row of item {}, expected {}",
                                                 options.name, key, end_taken)};
      }
      const Slot slot = slots.find(key);
      if (slot == SlotMap::kNone) {
        return Error{Code::kCorrupt, fmt::format("restore table \"{}\": its image has no item {}", options.name, key)};
      }
      writer.write(slot, i);
      ++end_taken;
    }
    return {};
  }));
  const std::size_t taken = end_taken - first_taken;
  if (taken == count) return FifoRows{std::move(rows), std::move(image.head), 0};
  // Some are missing; the others move together.
  RowStore dense(options.signature, head.capacity);
  BatchBuffer row(options.signature, 1);
  for (std::size_t slot = 0; slot < taken; ++slot) {
    const Slot from = slots.find(first_taken + slot);
    dense.add(static_cast<Slot>(slot));
    dense.header(static_cast<Slot>(slot)) = rows.header(from);
    rows.read(from, row.mutable_view(), 0);
    const BatchView view = row.view();
    RowStore::Writer(dense, view).write(static_cast<Slot>(slot), 0);
  }
  // No row at all: keys go on where they stood.
  if (taken == 0) first_taken = end_taken = end;
  image.head.items = static_cast<std::int64_t>(taken);
  image.head.counts.inserts = static_cast<std::int64_t>(end_taken);
  image.head.counts.deletes = static_cast<std::int64_t>(first_taken);
  return FifoRows{std::move(dense), std::move(image.head), static_cast<std::int64_t>(count - taken)};
}

}  // namespace troupe::replay
