#include <troupe/replay/row_store.hpp>

#include <algorithm>
#include <cstring>
#include <new>

#include <troupe/core/round_up.hpp>

namespace troupe::replay {
namespace {

constexpr std::size_t kPrefetchLimit = 512;  // beyond it the hardware's own prefetcher has seen the stream
constexpr PlaneStore::Place kNotLookedFor = ~PlaneStore::Place{0};

/// memcpy, with the one size that is worth a plain move: a scalar float32 column.
inline void copy_cell(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes == 4) {
    std::memcpy(to, from, 4);
  } else {
    std::memcpy(to, from, bytes);
  }
}

std::size_t stride_of(const Signature& split) {
  constexpr std::size_t kLine = 64;
  const std::size_t packed = sizeof(ItemHeader) + row_bytes(split);
  const std::size_t lines = round_up(packed, kLine);
  return lines - packed <= packed / 4 ? lines : round_up(packed, alignof(ItemHeader));
}

}  // namespace

std::size_t RowStore::whole_row_bytes(const Signature& signature) { return stride_of(signature); }

std::size_t RowStore::expected_row_bytes(const Signature& signature) {
  const Stacks stacks(signature);
  std::size_t bytes = stride_of(stacks.split());
  for (const Stacks::Pool& pool : stacks.pools()) bytes += pool.bytes;
  return bytes;
}

RowStore::RowStore(const Signature& signature, std::int64_t capacity)
    : stacks_(std::make_unique<const Stacks>(signature)),
      payload_bytes_(row_bytes(stacks_->split())),
      stride_(stride_of(stacks_->split())),
      memory_(stride_, capacity) {
  std::size_t offset = sizeof(ItemHeader);
  for (const TensorSpec& spec : stacks_->split()) {
    columns_.push_back({offset, spec.bytes()});
    offset += spec.bytes();
  }
  prefetch_bytes_ = std::min(stride_, kPrefetchLimit);
  for (const Stacks::Pool& pool : stacks_->pools()) planes_.emplace_back(pool.bytes, capacity);
}

void RowStore::add(Slot slot) {
  memory_.add(slot);
  new (row(slot)) ItemHeader{};
}

void RowStore::read(Slot slot, const MutableBatchView& batch, std::int64_t index) const {
  const std::byte* from = row(slot);
  auto stacked = stacks_->columns().begin();
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    if (stacked != stacks_->columns().end() && stacked->index == c) {
      const std::size_t bytes = stacked->layout.bytes() * stacked->layout.planes;
      join(slot, *stacked++, batch.columns[c].data() + static_cast<std::size_t>(index) * bytes);
      continue;
    }
    const std::size_t bytes = columns_[c].bytes;
    copy_cell(batch.columns[c].data() + static_cast<std::size_t>(index) * bytes, from + columns_[c].offset, bytes);
  }
}

void RowStore::read_packed(Slot slot, std::span<std::byte> to) const {
  MutableBatchView packed{&stacks_->whole(), 1, {}};
  for (const TensorSpec& column : stacks_->whole()) {
    packed.columns.push_back(to.first(column.bytes()));
    to = to.subspan(column.bytes());
  }
  read(slot, packed, 0);
}

void RowStore::move(Slot from, Slot to) { std::memcpy(row(to), row(from), sizeof(ItemHeader) + payload_bytes_); }

// ---- planes ----

PlaneStore::Place RowStore::place(Slot slot, const Stacks::Column& column, std::size_t k) const {
  PlaneStore::Place place;
  std::memcpy(&place, row(slot) + columns_[column.index].offset + k * sizeof(place), sizeof(place));
  return place;
}

void RowStore::write_packed(Slot slot, std::span<const std::byte> packed,
                            std::span<const std::vector<PlaneStore::Place>> places) {
  std::ranges::copy(packed, row(slot) + sizeof(ItemHeader));
  for (const Stacks::Column& column : stacks_->columns()) {
    for (std::size_t k = 0; k < column.layout.planes; ++k) {
      const PlaneStore::Place there = places[column.pool][place(slot, column, k)];
      planes_[column.pool].keep(there);
      std::memcpy(row(slot) + columns_[column.index].offset + k * sizeof(there), &there, sizeof(there));
    }
  }
}

void RowStore::drop_planes(Slot slot) {
  for (const Stacks::Column& column : stacks_->columns()) {
    for (std::size_t k = 0; k < column.layout.planes; ++k) planes_[column.pool].drop(place(slot, column, k));
  }
}

void RowStore::ask_for_planes(Slot slot) const {
  for (const Stacks::Column& column : stacks_->columns()) {
    for (std::size_t k = 0; k < column.layout.planes; ++k) planes_[column.pool].prefetch(place(slot, column, k));
  }
}

void RowStore::join(Slot slot, const Stacks::Column& column, std::byte* to) const {
  constexpr std::size_t kOnStack = 16;
  const std::byte* few[kOnStack];
  std::vector<const std::byte*> many(column.layout.planes <= kOnStack ? 0 : column.layout.planes);
  const std::byte** const from = many.empty() ? few : many.data();
  for (std::size_t k = 0; k < column.layout.planes; ++k)
    from[k] = planes_[column.pool].at(place(slot, column, k)).data();
  join_planes(column.layout, from, to);
}

std::int64_t RowStore::most_row_bytes() const {
  std::size_t bytes = stride_;
  for (const Stacks::Column& column : stacks_->columns()) bytes += column.layout.planes * column.layout.bytes();
  return static_cast<std::int64_t>(bytes);
}

// ---- rows on their way in ----

RowStore::Writer::Writer(RowStore& store, const BatchView& batch) : store_(store), batch_(batch) {
  if (store_.planes_.empty()) return;
  split_ = batch;
  if (!store_.stacks_->is_split(batch)) {
    whole_ = std::make_unique<StackSplitter>(*store_.stacks_);
    split_ = whole_->split(batch);
  }
  for (std::size_t p = 0; p < store_.planes_.size(); ++p) {
    places_.emplace_back(split_.planes[p].size() / store_.planes_[p].plane_bytes(), kNotLookedFor);
  }
}

RowStore::Writer::~Writer() {
  for (std::size_t p = 0; p < places_.size(); ++p) {
    for (const PlaneStore::Place place : places_[p]) {
      if (place != kNotLookedFor) store_.planes_[p].drop(place);
    }
  }
}

void RowStore::Writer::write(Slot slot, std::int64_t index) {
  std::byte* to = store_.row(slot);
  const BatchView& batch = store_.planes_.empty() ? batch_ : split_;
  for (std::size_t c = 0; c < store_.columns_.size(); ++c) {
    const auto [offset, bytes] = store_.columns_[c];
    copy_cell(to + offset, batch.columns[c].data() + static_cast<std::size_t>(index) * bytes, bytes);
  }
  for (const Stacks::Column& column : store_.stacks_->columns()) {
    PlaneStore& planes = store_.planes_[column.pool];
    for (std::size_t k = 0; k < column.layout.planes; ++k) {
      const std::size_t in_batch = store_.place(slot, column, k);
      PlaneStore::Place& place = places_[column.pool][in_batch];
      if (place == kNotLookedFor) {
        place = planes.take(batch.planes[column.pool].subspan(in_batch * planes.plane_bytes(), planes.plane_bytes()));
      }
      planes.keep(place);
      std::memcpy(to + store_.columns_[column.index].offset + k * sizeof(place), &place, sizeof(place));
    }
  }
}

}  // namespace troupe::replay
