#pragma once
// The layout of a saved table: what Table::save() and restore() write and read. A head chunk (what the table is, its
// counters, its generator) and chunks of consecutive rows. Rows are header fields and packed columns without padding,
// so an image does not depend on the padding of the program that reads it. Every chunk opens with the same prefix:
//   u64 magic "TRTABLE1" ("TRITEMS1": without columns; "TRTABLE2": split) | u32 index | u32 count | u64 first slot |
//   u64 rows (head: 0 rows)
// Of a table whose rows are split (core/stacks.hpp) the rows are, too: the head counts the planes of each pool, in the
// order in which rows first name them, and chunks of planes follow those of rows.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/replay/rate_limiter.hpp>
#include <troupe/replay/row_store.hpp>
#include <troupe/replay/selector.hpp>
#include <troupe/replay/table.hpp>

namespace troupe::replay {

/// Chunks stay below this, unless one row alone does not.
inline constexpr std::size_t kImageChunkBytes = std::size_t{16} << 20;

/// Everything in an image besides its rows. The first group must equal the restoring table's.
struct ImageHead {
  Signature signature;
  std::int64_t capacity = 0;  ///< items, after max_bytes
  std::int64_t max_times_sampled = 0;
  SelectorOptions sampler;
  SelectorOptions remover;

  std::int64_t items = 0;
  RateLimiterCounts counts;
  Rng::State rng{};
  // In the image only where they are not these:
  Key first_key = 0;      ///< of the first item since the table was reset
  bool has_gaps = false;  ///< items were erased, so that keys do not follow slots
};

/// Of a table as it is now.
ImageHead image_head(const TableOptions& options, std::int64_t capacity, const RateLimiterCounts& counts,
                     const Rng& rng);

/// An item to be written; valid until the next one is asked for.
struct ImageRow {
  ItemHeader item;
  std::span<const std::byte> columns;  ///< packed
};

/// The head, and what `row` gives for slots 0..head.items-1: it is asked for each once, in this order. Whole rows.
std::vector<std::vector<std::byte>> write_image(const ImageHead& head, const std::function<ImageRow(Slot)>& row);

/// The same of the rows in slots 0..head.items-1, as they are stored.
std::vector<std::vector<std::byte>> write_image(const ImageHead& head, const RowStore& rows);

struct Image {
  ImageHead head;
  RowStore rows;
};

/// Reads an image for a table described by `expected` (first group), whose signature the rows then have. A table with
/// stacks takes whole rows, too.
/// Errors: kCorrupt when a chunk is missing, out of order, cut short or holds impossible values, naming the chunk;
/// kShapeMismatch when it is an image of another kind of table, naming the first difference.
Result<Image> read_image(std::span<const std::vector<std::byte>> chunks, const ImageHead& expected);

/// The same without the rows' columns, which somebody else keeps.
std::vector<std::vector<std::byte>> write_items(const ImageHead& head, const std::function<ItemHeader(Slot)>& item);

struct ItemsImage {
  ImageHead head;
  std::vector<ItemHeader> items;  ///< by slot
};
Result<ItemsImage> read_items(std::span<const std::vector<std::byte>> chunks, const ImageHead& expected);

}  // namespace troupe::replay
