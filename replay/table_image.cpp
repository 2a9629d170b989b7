#include <troupe/replay/table_image.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include <troupe/replay/bytes.hpp>
#include <troupe/replay/detail/signature_bytes.hpp>

namespace troupe::replay {
namespace {

constexpr std::uint64_t kWholeRows = 0x31454c4241545254;  // "TRTABLE1"
constexpr std::uint64_t kSplitRows = 0x32454c4241545254;  // "TRTABLE2"

/// The kinds of images: with the rows' columns, whole or split, or the items' headers alone.
struct Layout {
  std::uint64_t magic;
  std::size_t payload_bytes;
  struct Pool {
    std::size_t plane_bytes;
    std::uint64_t planes;
  };
  std::vector<Pool> pools = {};
};
Layout whole_rows(const Signature& signature) { return {kWholeRows, row_bytes(signature)}; }
/// Its pools have no planes yet.
Layout split_rows(const Stacks& stacks) {
  Layout layout{kSplitRows, row_bytes(stacks.split())};
  for (const Stacks::Pool& pool : stacks.pools()) layout.pools.push_back({pool.bytes, 0});
  return layout;
}
const Layout kItemsAlone{0x31534d4554495254, 0};  // "TRITEMS1"
constexpr Key kMostKeys = Key{1} << 62;           // so that none can overflow
constexpr std::size_t kPrefixBytes = 8 + 4 + 4 + 8 + 8;
constexpr std::size_t kRowHeaderBytes = 8 + 8 + 4;

std::int64_t rows_per_chunk(const Layout& layout) {
  const std::size_t row = kRowHeaderBytes + layout.payload_bytes;
  return static_cast<std::int64_t>(std::max<std::size_t>(1, (kImageChunkBytes - kPrefixBytes) / row));
}

std::uint64_t planes_per_chunk(const Layout::Pool& pool) {
  return std::max<std::size_t>(1, (kImageChunkBytes - kPrefixBytes) / pool.plane_bytes);
}

std::uint32_t chunk_count(std::int64_t items, const Layout& layout) {
  const std::int64_t per_chunk = rows_per_chunk(layout);
  std::uint64_t chunks = 1 + static_cast<std::uint64_t>((items + per_chunk - 1) / per_chunk);
  for (const Layout::Pool& pool : layout.pools)
    chunks += (pool.planes + planes_per_chunk(pool) - 1) / planes_per_chunk(pool);
  return static_cast<std::uint32_t>(chunks);
}

void put_prefix(ByteWriter& out, const Layout& layout, std::uint32_t index, std::uint32_t count, std::int64_t first,
                std::int64_t rows) {
  out.put(layout.magic);
  out.put(index);
  out.put(count);
  out.put(static_cast<std::uint64_t>(first));
  out.put(static_cast<std::uint64_t>(rows));
}

void put_selector(ByteWriter& out, const SelectorOptions& options) {
  out.put(static_cast<std::uint8_t>(options.kind));
  out.put(options.priority_exponent);
}

SelectorOptions get_selector(ByteReader& in) {
  SelectorOptions options;
  options.kind = static_cast<SelectorKind>(in.get<std::uint8_t>());
  options.priority_exponent = in.get<double>();
  return options;
}

bool same(const SelectorOptions& a, const SelectorOptions& b) {
  return a.kind == b.kind && (a.kind != SelectorKind::kPrioritized || a.priority_exponent == b.priority_exponent);
}

std::vector<std::byte> write_head(const ImageHead& head, const Layout& layout) {
  ByteWriter out;
  put_prefix(out, layout, 0, chunk_count(head.items, layout), 0, 0);
  detail::put_signature(out, head.signature);
  out.put(head.capacity);
  out.put(head.max_times_sampled);
  put_selector(out, head.sampler);
  put_selector(out, head.remover);
  out.put(head.items);
  out.put(head.counts.inserts);
  out.put(head.counts.samples);
  out.put(head.counts.deletes);
  for (std::uint64_t word : head.rng) out.put(word);
  for (const Layout::Pool& pool : layout.pools) out.put(pool.planes);
  if (head.first_key != 0 || head.has_gaps) {
    out.put(head.first_key);
    out.put(std::uint8_t{head.has_gaps});
  }
  return out.take();
}

Error corrupt(std::size_t chunk, std::string_view what) {
  return {Code::kCorrupt, fmt::format("table image: chunk {}: {}", chunk, what)};
}

struct Prefix {
  std::uint64_t first = 0;
  std::uint64_t rows = 0;
};

Result<Prefix> get_prefix(ByteReader& in, const Layout& layout, std::size_t index, std::size_t count) {
  const auto magic = in.get<std::uint64_t>();
  const auto got_index = in.get<std::uint32_t>();
  const auto got_count = in.get<std::uint32_t>();
  const Prefix prefix{in.get<std::uint64_t>(), in.get<std::uint64_t>()};
  if (!in.ok()) return corrupt(index, "shorter than its prefix");
  if (magic != layout.magic) {
    return corrupt(index, fmt::format("magic is {:016x}, expected {:016x}", magic, layout.magic));
  }
  if (got_index != index || got_count != count) {
    return corrupt(index, fmt::format("says it is {} of {}, expected {} of {}", got_index, got_count, index, count));
  }
  return prefix;
}

Status check_kind(const ImageHead& got, const ImageHead& expected) {
  TROUPE_TRY(check_same(got.signature, expected.signature, "table image"));
  auto differ = [](std::string_view what, auto is, auto wanted) {
    return Error{Code::kShapeMismatch, fmt::format("table image: {} is {}, expected {}", what, is, wanted)};
  };
  if (got.capacity != expected.capacity) return differ("capacity", got.capacity, expected.capacity);
  if (got.max_times_sampled != expected.max_times_sampled) {
    return differ("max_times_sampled", got.max_times_sampled, expected.max_times_sampled);
  }
  auto describe = [](const SelectorOptions& options) {
    return fmt::format("{} (priority_exponent {})", to_string(options.kind), options.priority_exponent);
  };
  if (!same(got.sampler, expected.sampler)) {
    return differ("sampler", describe(got.sampler), describe(expected.sampler));
  }
  if (!same(got.remover, expected.remover)) {
    return differ("remover", describe(got.remover), describe(expected.remover));
  }
  return {};
}

/// Completes `layout` by the planes that there are.
Result<ImageHead> read_head(std::span<const std::vector<std::byte>> chunks, Layout& layout, const ImageHead& expected) {
  if (chunks.empty()) return Error{Code::kCorrupt, "table image: no chunks"};
  ByteReader in(chunks[0]);
  TROUPE_TRY(get_prefix(in, layout, 0, chunks.size()));
  ImageHead head;
  auto signature = detail::get_signature(in);
  if (!signature.ok()) return corrupt(0, signature.error().message);
  head.signature = std::move(signature).value();
  head.capacity = in.get<std::int64_t>();
  head.max_times_sampled = in.get<std::int64_t>();
  head.sampler = get_selector(in);
  head.remover = get_selector(in);
  head.items = in.get<std::int64_t>();
  head.counts.inserts = in.get<std::int64_t>();
  head.counts.samples = in.get<std::int64_t>();
  head.counts.deletes = in.get<std::int64_t>();
  for (std::uint64_t& word : head.rng) word = in.get<std::uint64_t>();
  for (Layout::Pool& pool : layout.pools) {
    pool.planes = in.get<std::uint64_t>();
    // More than the rows can name, and chunk_count() would not be what it says.
    if (pool.planes > kMostPlanesOfRows) return corrupt(0, fmt::format("{} planes", pool.planes));
  }
  if (in.remaining() > 0) {
    head.first_key = in.get<std::uint64_t>();
    const auto gaps = in.get<std::uint8_t>();
    head.has_gaps = gaps != 0;
    const bool says_something = head.first_key != 0 || head.has_gaps;
    if (gaps > 1 || !says_something || head.first_key > kMostKeys) return corrupt(0, "impossible keys");
  }
  if (!in.finished()) return corrupt(0, "has another length than its fields");
  TROUPE_TRY(check_kind(head, expected));
  const bool counts_ok =
      head.counts.inserts >= 0 && head.counts.deletes >= 0 && head.counts.inserts - head.counts.deletes == head.items;
  if (head.items < 0 || head.items > head.capacity || !counts_ok) {
    return corrupt(0, fmt::format("{} items of {}, but {} inserts and {} deletes", head.items, head.capacity,
                                  head.counts.inserts, head.counts.deletes));
  }
  if (head.rng == Rng::State{}) return corrupt(0, "generator state is all zeros");
  if (const std::uint32_t count = chunk_count(head.items, layout); count != chunks.size()) {
    return corrupt(0, fmt::format("{} items take {} chunks, got {}", head.items, count, chunks.size()));
  }
  return head;
}

/// Gives every row to `take(slot, item, columns)`.
template <typename F>
Status read_rows(std::span<const std::vector<std::byte>> chunks, const Layout& layout, const ImageHead& head, F take) {
  const std::int64_t per_chunk = rows_per_chunk(layout);
  const std::int64_t row_chunks = (head.items + per_chunk - 1) / per_chunk;
  for (std::size_t index = 1; index <= static_cast<std::size_t>(row_chunks); ++index) {
    ByteReader in(chunks[index]);
    TROUPE_ASSIGN(const Prefix prefix, get_prefix(in, layout, index, chunks.size()));
    const std::int64_t first = static_cast<std::int64_t>(index - 1) * per_chunk;
    const std::int64_t rows = std::min(per_chunk, head.items - first);
    if (prefix.first != static_cast<std::uint64_t>(first) || prefix.rows != static_cast<std::uint64_t>(rows)) {
      return corrupt(index,
                     fmt::format("holds {} rows from {}, expected {} from {}", prefix.rows, prefix.first, rows, first));
    }
    if (in.remaining() != static_cast<std::size_t>(rows) * (kRowHeaderBytes + layout.payload_bytes)) {
      return corrupt(index, fmt::format("{} bytes of rows, expected {}", in.remaining(),
                                        static_cast<std::size_t>(rows) * (kRowHeaderBytes + layout.payload_bytes)));
    }
    for (std::int64_t i = 0; i < rows; ++i) {
      const auto slot = static_cast<Slot>(first + i);
      ItemHeader item;
      item.key = in.get<std::uint64_t>();
      item.priority = in.get<double>();
      item.times_sampled = in.get<std::int32_t>();
      const bool times_ok =
          item.times_sampled >= 0 && (head.max_times_sampled == 0 || item.times_sampled < head.max_times_sampled);
      const bool key_ok =
          item.key >= head.first_key && item.key - head.first_key < static_cast<Key>(head.counts.inserts);
      if (!key_ok || !valid_priority(item.priority) || !times_ok) {
        return corrupt(index, fmt::format("row {} has key {}, priority {}, times_sampled {}", slot, item.key,
                                          item.priority, item.times_sampled));
      }
      take(slot, item, in.get_bytes(layout.payload_bytes));
    }
  }
  return {};
}

/// The places in `rows` of the planes of each pool, with a user each.
Result<std::vector<std::vector<PlaneStore::Place>>> read_planes(std::span<const std::vector<std::byte>> chunks,
                                                                const Layout& layout, const ImageHead& head,
                                                                RowStore& rows) {
  std::vector<std::vector<PlaneStore::Place>> places(layout.pools.size());
  std::size_t index = 1 + static_cast<std::size_t>((head.items + rows_per_chunk(layout) - 1) / rows_per_chunk(layout));
  for (std::size_t p = 0; p < layout.pools.size(); ++p) {
    const Layout::Pool& pool = layout.pools[p];
    for (std::uint64_t first = 0; first < pool.planes; first += planes_per_chunk(pool), ++index) {
      ByteReader in(chunks[index]);
      TROUPE_ASSIGN(const Prefix prefix, get_prefix(in, layout, index, chunks.size()));
      const std::uint64_t here = std::min(planes_per_chunk(pool), pool.planes - first);
      if (prefix.first != first || prefix.rows != here || in.remaining() != here * pool.plane_bytes) {
        return corrupt(index, fmt::format("holds {} planes from {} in {} bytes, expected {} from {} of {} bytes",
                                          prefix.rows, prefix.first, in.remaining(), here, first, pool.plane_bytes));
      }
      for (std::uint64_t i = 0; i < here; ++i)
        places[p].push_back(rows.planes()[p].take(in.get_bytes(pool.plane_bytes)));
    }
  }
  return places;
}

/// That a split row names planes of the image.
bool names_planes(const Stacks& stacks, std::span<const std::byte> packed,
                  const std::vector<std::vector<PlaneStore::Place>>& places) {
  std::size_t offset = 0;
  auto stacked = stacks.columns().begin();
  for (std::size_t c = 0; c < stacks.split().size(); ++c) {
    const std::size_t bytes = stacks.split()[c].bytes();
    if (stacked != stacks.columns().end() && stacked->index == c) {
      for (std::size_t k = 0; k < stacked->layout.planes; ++k) {
        PlaneStore::Place place;
        std::memcpy(&place, packed.data() + offset + k * sizeof(place), sizeof(place));
        if (place >= places[stacked->pool].size()) return false;
      }
      ++stacked;
    }
    offset += bytes;
  }
  return true;
}

Status read_split(std::span<const std::vector<std::byte>> chunks, const Layout& layout, Image& image) {
  TROUPE_ASSIGN(const auto places, read_planes(chunks, layout, image.head, image.rows));
  std::optional<Slot> wrong;
  TROUPE_TRY(
      read_rows(chunks, layout, image.head, [&](Slot slot, const ItemHeader& item, std::span<const std::byte> columns) {
        image.rows.add(slot);
        image.rows.header(slot) = item;
        if (names_planes(image.rows.stacks(), columns, places)) {
          image.rows.write_packed(slot, columns, places);
        } else {
          wrong = slot;
        }
      }));
  if (wrong) return corrupt(0, fmt::format("row {} names planes that are not there", *wrong));
  for (std::size_t p = 0; p < places.size(); ++p) {
    for (const PlaneStore::Place place : places[p]) image.rows.planes()[p].drop(place);
  }
  return {};
}

Status read_whole(std::span<const std::vector<std::byte>> chunks, const Layout& layout, Image& image) {
  const Signature& signature = image.rows.stacks().whole();
  return read_rows(chunks, layout, image.head,
                   [&](Slot slot, const ItemHeader& item, std::span<const std::byte> columns) {
                     image.rows.add(slot);
                     image.rows.header(slot) = item;
                     if (!image.rows.stacks().any()) return image.rows.write_packed(slot, columns, {});
                     BatchView row{&signature, 1, {}};
                     for (const TensorSpec& column : signature) {
                       row.columns.push_back(columns.first(column.bytes()));
                       columns = columns.subspan(column.bytes());
                     }
                     RowStore::Writer(image.rows, row).write(slot, 0);
                   });
}

/// Numbers of the planes of a pool in an image.
struct Numbers {
  std::vector<std::int32_t> of_place;
  std::vector<PlaneStore::Place> places;  // by number
};

/// The slot's split row, packed, with its places as numbers.
std::span<const std::byte> numbered(const RowStore& rows, Slot slot, std::vector<Numbers>& numbers,
                                    std::vector<std::byte>& packed) {
  const auto payload = rows.payload(slot);
  packed.assign(payload.begin(), payload.end());
  std::size_t offset = 0;
  auto stacked = rows.stacks().columns().begin();
  for (std::size_t c = 0; c < rows.stacks().split().size(); ++c) {
    if (stacked != rows.stacks().columns().end() && stacked->index == c) {
      Numbers& pool = numbers[stacked->pool];
      for (std::size_t k = 0; k < stacked->layout.planes; ++k) {
        std::byte* const at = packed.data() + offset + k * sizeof(PlaneStore::Place);
        PlaneStore::Place place;
        std::memcpy(&place, at, sizeof(place));
        std::int32_t& number = pool.of_place[place];
        if (number < 0) {
          number = static_cast<std::int32_t>(pool.places.size());
          pool.places.push_back(place);
        }
        std::memcpy(at, &number, sizeof(number));
      }
      ++stacked;
    }
    offset += rows.stacks().split()[c].bytes();
  }
  return packed;
}

std::vector<std::vector<std::byte>> write(const ImageHead& head, const std::function<ImageRow(Slot)>& row,
                                          const Layout& layout) {
  std::vector<std::vector<std::byte>> chunks{write_head(head, layout)};
  const std::int64_t per_chunk = rows_per_chunk(layout);
  const std::uint32_t count = chunk_count(head.items, layout);
  for (std::int64_t first = 0; first < head.items; first += per_chunk) {
    const std::int64_t here = std::min(per_chunk, head.items - first);
    ByteWriter out;
    out.reserve(kPrefixBytes + static_cast<std::size_t>(here) * (kRowHeaderBytes + layout.payload_bytes));
    put_prefix(out, layout, static_cast<std::uint32_t>(chunks.size()), count, first, here);
    for (auto slot = static_cast<Slot>(first); slot < first + here; ++slot) {
      const ImageRow next = row(slot);
      out.put(next.item.key);
      out.put(next.item.priority);
      out.put(next.item.times_sampled);
      out.put_bytes(next.columns);
    }
    chunks.push_back(out.take());
  }
  return chunks;
}

}  // namespace

ImageHead image_head(const TableOptions& options, std::int64_t capacity, const RateLimiterCounts& counts,
                     const Rng& rng) {
  return {.signature = options.signature,
          .capacity = capacity,
          .max_times_sampled = options.max_times_sampled,
          .sampler = options.sampler,
          .remover = options.remover,
          .items = counts.inserts - counts.deletes,
          .counts = counts,
          .rng = rng.state()};
}

std::vector<std::vector<std::byte>> write_image(const ImageHead& head, const std::function<ImageRow(Slot)>& row) {
  return write(head, row, whole_rows(head.signature));
}

std::vector<std::vector<std::byte>> write_image(const ImageHead& head, const RowStore& rows) {
  if (!rows.stacks().any()) {
    return write_image(head, [&](Slot slot) { return ImageRow{rows.header(slot), rows.payload(slot)}; });
  }
  Layout layout = split_rows(rows.stacks());
  std::vector<Numbers> numbers;
  for (const PlaneStore& planes : rows.planes())
    numbers.push_back({std::vector<std::int32_t>(planes.places(), -1), {}});
  std::vector<std::byte> packed;
  // Once for the numbers alone: the head says how many there are.
  for (Slot slot = 0; slot < head.items; ++slot) (void)numbered(rows, slot, numbers, packed);
  for (std::size_t p = 0; p < numbers.size(); ++p) layout.pools[p].planes = numbers[p].places.size();
  auto chunks = write(
      head,
      [&](Slot slot) {
        return ImageRow{rows.header(slot), numbered(rows, slot, numbers, packed)};
      },
      layout);
  const std::uint32_t count = chunk_count(head.items, layout);
  for (std::size_t p = 0; p < numbers.size(); ++p) {
    const auto& places = numbers[p].places;
    const auto per_chunk = static_cast<std::size_t>(planes_per_chunk(layout.pools[p]));
    for (std::size_t first = 0; first < places.size(); first += per_chunk) {
      const std::size_t here = std::min(per_chunk, places.size() - first);
      ByteWriter out;
      out.reserve(kPrefixBytes + here * layout.pools[p].plane_bytes);
      put_prefix(out, layout, static_cast<std::uint32_t>(chunks.size()), count, static_cast<std::int64_t>(first),
                 static_cast<std::int64_t>(here));
      for (std::size_t i = first; i < first + here; ++i) out.put_bytes(rows.planes()[p].at(places[i]));
      chunks.push_back(out.take());
    }
  }
  return chunks;
}

Result<Image> read_image(std::span<const std::vector<std::byte>> chunks, const ImageHead& expected) {
  RowStore rows(expected.signature, expected.capacity);
  const std::uint64_t magic = chunks.empty() ? 0 : ByteReader(chunks[0]).get<std::uint64_t>();
  const bool split = rows.stacks().any() && magic == kSplitRows;
  Layout layout = split ? split_rows(rows.stacks()) : whole_rows(expected.signature);
  TROUPE_ASSIGN(ImageHead head, read_head(chunks, layout, expected));
  if (split && !same_stacks(head.signature, expected.signature)) {
    return Error{Code::kShapeMismatch, "table image: its rows are split otherwise"};
  }
  Image image{std::move(head), std::move(rows)};
  TROUPE_TRY(split ? read_split(chunks, layout, image) : read_whole(chunks, layout, image));
  return image;
}

std::vector<std::vector<std::byte>> write_items(const ImageHead& head, const std::function<ItemHeader(Slot)>& item) {
  return write(
      head,
      [&](Slot slot) {
        return ImageRow{item(slot), {}};
      },
      kItemsAlone);
}

Result<ItemsImage> read_items(std::span<const std::vector<std::byte>> chunks, const ImageHead& expected) {
  ItemsImage image;
  Layout layout = kItemsAlone;
  TROUPE_ASSIGN(image.head, read_head(chunks, layout, expected));
  TROUPE_TRY(read_rows(chunks, kItemsAlone, image.head,
                       [&](Slot, const ItemHeader& item, std::span<const std::byte>) { image.items.push_back(item); }));
  return image;
}

}  // namespace troupe::replay
