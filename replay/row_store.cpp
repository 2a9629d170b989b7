#include <troupe/replay/row_store.hpp>

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>

#include <troupe/core/round_up.hpp>

namespace troupe::replay {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{16} << 20;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kPrefetchLimit = 512;  // beyond it the hardware's own prefetcher has seen the stream

/// memcpy, with the one size that is worth a plain move: a scalar float32 column.
inline void copy_cell(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes == 4) {
    std::memcpy(to, from, 4);
  } else {
    std::memcpy(to, from, bytes);
  }
}

}  // namespace

void RowStore::Free::operator()(std::byte* memory) const { std::free(memory); }

std::size_t RowStore::row_stride(const Signature& signature) {
  const std::size_t packed = sizeof(ItemHeader) + row_bytes(signature);
  const std::size_t lines = round_up(packed, kLine);
  return lines - packed <= packed / 4 ? lines : round_up(packed, alignof(ItemHeader));
}

RowStore::RowStore(const Signature& signature, std::int64_t capacity)
    : payload_bytes_(row_bytes(signature)), stride_(row_stride(signature)) {
  std::size_t offset = sizeof(ItemHeader);
  for (const TensorSpec& spec : signature) {
    columns_.push_back({offset, spec.bytes()});
    offset += spec.bytes();
  }
  prefetch_bytes_ = std::min(stride_, kPrefetchLimit);
  const std::size_t fitting = std::max<std::size_t>(1, kChunkBytes / stride_);
  const std::size_t rows = std::min(std::bit_floor(fitting), std::bit_ceil(static_cast<std::size_t>(capacity)));
  chunk_shift_ = std::countr_zero(rows);
  chunk_mask_ = static_cast<Slot>(rows - 1);
}

void RowStore::add(Slot slot) {
  if ((slot >> chunk_shift_) == chunks_.size()) {
    const std::size_t bytes = (std::size_t{chunk_mask_} + 1) * stride_;
    const bool huge = bytes >= kHugePage;
    const std::size_t align = huge ? kHugePage : kLine;
    auto* memory = static_cast<std::byte*>(std::aligned_alloc(align, round_up(bytes, align)));
    if (memory == nullptr) throw std::bad_alloc();
    // Rows are drawn at random: with small pages most draws would also miss the TLB. Only a hint, so unchecked.
    if (huge) madvise(memory, round_up(bytes, align), MADV_HUGEPAGE);
    chunks_.emplace_back(memory);
  }
  new (row(slot)) ItemHeader{};
}

void RowStore::write(Slot slot, const BatchView& batch, std::int64_t index) {
  std::byte* to = row(slot);
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    const std::size_t bytes = columns_[c].bytes;
    copy_cell(to + columns_[c].offset, batch.columns[c].data() + static_cast<std::size_t>(index) * bytes, bytes);
  }
}

void RowStore::read(Slot slot, const MutableBatchView& batch, std::int64_t index) const {
  const std::byte* from = row(slot);
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    const std::size_t bytes = columns_[c].bytes;
    copy_cell(batch.columns[c].data() + static_cast<std::size_t>(index) * bytes, from + columns_[c].offset, bytes);
  }
}

void RowStore::move(Slot from, Slot to) { std::memcpy(row(to), row(from), sizeof(ItemHeader) + payload_bytes_); }

}  // namespace troupe::replay
